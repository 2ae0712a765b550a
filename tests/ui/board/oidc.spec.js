// A person of an identity provider: prepared by the directory, signed in by the button, and one whose session may not
// accept approvals and does so with a token.

import assert from "node:assert/strict";

const person = (name) => ({ sub: `of-${name}`, email: `${name}@corp.example`, email_verified: true, name });

export const world = {
  directory: { ada: person("ada"), eve: person("eve"), ben: person("ben") },
  variables: { SVC_OIDC_LINK_EMAIL: "1" },
};

/** Prepares a person, as a directory does. */
async function prepare(world, name) {
  const handle = `${name}@corp.example`;
  const response = await fetch(`http://${world.servers[0].address}/scim/v2/Users`, {
    method: "POST",
    headers: { authorization: `Bearer ${world.admin.token}`, "content-type": "application/scim+json" },
    body: JSON.stringify({ userName: handle }),
  });
  assert.equal(response.status, 201, await response.text());
  return { handle };
}

/** Goes from the page of sign-in to the provider, and answers there. */
async function signInAs(page, name, answer = "yes") {
  await page.click(".sign-in a.button");
  await page.fill("[name=login]", name);
  await page.click(`button[value=${answer}]`);
}

export const tests = {
  "who was prepared comes back to the place that was asked for, and is live": async ({ world, open }) => {
    const ada = await prepare(world, "ada");
    const task = await world.task(await world.channel("asked for"), "Is opened by a link");
    const said = await world.admin.call("post_message", { thread_id: task.id, body: "Look here" });
    const page = await open(null);
    const wanted = `${world.url}t/${task.id}#m-${said.id}`;
    await page.goto(wanted);
    await signInAs(page, "ada");
    await page.waitForSelector(`[data-screen=task] [data-message="${said.id}"]`);
    await page.live("live");
    assert.equal(page.url(), wanted);
    assert.equal(await page.locator(".account summary").innerText(), ada.handle);
    await world.claimed(world.agent, task.id);
    await page.says("[data-panel=claim]", /Held by[^]*worker/);
    await page.fill("textarea[name=body]", "Said by a person");
    await page.keyboard.press("Control+Enter");
    await page.says(".timeline [data-message]", /ada@corp\.example[^]*Said by a person/);
  },

  "whom nobody has prepared reads why, and comes back to the page of sign-in": async ({ world, open }) => {
    const page = await open(null);
    await page.goto(`${world.url}board`);
    await signInAs(page, "eve");
    await page.says("main", /no member of the workspace: ask its administrator/);
    assert.ok(!(await page.context().cookies()).some(({ name }) => name === "svc_session"));
    await page.click("main a");
    await page.waitForSelector("[data-screen=sign-in] a.button");
    assert.equal(page.url(), world.url);
  },

  "who goes back at the provider reads that, and can begin again": async ({ world, open }) => {
    await prepare(world, "ben");
    const page = await open(null);
    await page.goto(`${world.url}board`);
    await signInAs(page, "ben", "no");
    await page.says("main", /has not signed you in/);
    await page.click("main a");
    await signInAs(page, "ben");
    await page.waitForSelector("[data-screen=now]");
    await page.live("live");
  },

  "a session that may not accept does so by a token, which is sent once and kept nowhere": async ({ world, open }) => {
    const task = await world.task(await world.channel("accepting"), "Asks for a person");
    await world.claimed(world.agent, task.id);
    const asked = { thread_id: task.id, question: "May I?", needs_person: true };
    const gate = await world.agent.call("request_approval", asked);
    const page = await open(null);
    await page.goto(`${world.url}t/${task.id}`);
    await signInAs(page, "ada");
    await page.live("live");
    const me = await page.evaluate(async () => {
      const base = document.querySelector("script[type=module]").src.split("/ui/f/")[0];
      return (await fetch(`${base}/auth/session`)).json();
    });
    assert.ok(!me.capabilities.includes("approval:grant"));
    const of = (member, capabilities) => world.admin.call("mint_token", { member_id: member, capabilities });
    const { secret } = await of(me.member_id, ["approval:grant", "workspace:read"]);
    const { secret: foreign } = await of(world.agent.id, ["approval:grant", "workspace:read"]);
    const sent = [];
    page.on("request", async (request) => {
      const headers = await request.allHeaders().catch(() => ({}));
      const parts = [request.url(), request.postData() ?? "", JSON.stringify(headers)];
      if ([secret, foreign].some((one) => parts.some((part) => part.includes(one))))
        sent.push({ headers, isInHead: !parts.slice(0, 2).some((part) => part.includes("svc_")) });
    });
    const box = `[data-gate="${gate.id}"]`;
    const pressTwice = async () => {
      for (let press = 0; press < 2; press += 1) await page.click(`${box} [data-decision=accept]`);
    };

    await page.fill(`${box} [name=token]`, foreign);
    await pressTwice();
    await page.says(box, /not valid, or it is of another member/);
    assert.equal(await page.inputValue(`${box} [name=token]`), "");

    await page.fill(`${box} [name=token]`, secret);
    await pressTwice();
    await page.waitForSelector(`${box}[data-state=accepted]`);
    const { state, resolved_by } = await world.admin.call("get_approval_gate", { gate_id: gate.id });
    assert.deepEqual([state, resolved_by], ["accepted", me.member_id]);
    assert.equal(sent.length, 2, "each was sent once");
    for (const { headers, isInHead } of sent) assert.ok(isInHead && headers.cookie.includes("svc_session="));
    assert.equal(sent[1].headers.authorization, `Bearer ${secret}`);

    await page.keyboard.press("g");
    await page.keyboard.press("b");
    await page.waitForSelector("[data-screen=board]");
    const left = await page.evaluate(async () => {
      const databases = (await indexedDB.databases()).map(({ name }) => name);
      const caches = "caches" in globalThis ? await globalThis.caches.keys() : [];
      const fields = [...document.querySelectorAll("input, textarea")].map(({ value }) => value);
      const kept = { ...localStorage, ...sessionStorage };
      const page = document.documentElement.outerHTML;
      return JSON.stringify([kept, history.state, page, fields, location.href, name, document.cookie, databases, caches]);
    });
    for (const one of [secret, foreign]) assert.ok(!left.includes(one));
    for (let back = 0; back < 3; back += 1) {
      assert.ok(!page.url().includes("svc_"), page.url());
      await page.goBack().catch(() => null);
    }
    assert.equal((await page.context().cookies()).filter(({ value }) => value.includes(secret)).length, 0);
  },
};
