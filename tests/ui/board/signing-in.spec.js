// Signing in by a link, by a token and at the identity provider; what happens when a session ends.

import assert from "node:assert/strict";

const enter = "button[data-action=create_session]";

export const tests = {
  "a link is out of the address before anybody is signed in, and says as whom": async ({ world, open }) => {
    const page = await open(null);
    await page.goto(`${world.url}#${world.admin.token}`);
    await page.waitForSelector("[data-screen=sign-in] button");
    assert.equal(page.url(), world.url);
    assert.ok(!(await page.evaluate(() => JSON.stringify(history.state))).includes(world.admin.token));
    await page.says("[data-screen=sign-in]", new RegExp(`as ${world.admin.handle}`));
    assert.deepEqual(await page.context().cookies(), [], "a link signs nobody in unasked");
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-screen=board], [data-screen=now]");
    await page.live("live");
    const kept = await page.evaluate(() =>
      JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.body.innerHTML]),
    );
    assert.ok(!kept.includes(world.admin.token) && !page.url().includes("svc_"));
    await page.goBack().catch(() => null);
    assert.ok(!page.url().includes(world.admin.token));
  },

  "a strange link leaves whoever is signed in as they are": async ({ world, open }) => {
    const page = await open(world.admin);
    await page.goto(`${world.url}board#${world.agent.token}`);
    await page.says("[data-screen=sign-in]", new RegExp(`signed in as ${world.admin.handle}`, "i"));
    await page.getByRole("button", { name: `Stay signed in as ${world.admin.handle}` }).click();
    await page.waitForSelector("[data-screen=board]");
    assert.equal(await page.locator(".account summary").innerText(), world.admin.handle);
  },

  "a link that is opened where the board is already is out of the address too, and says as whom": async ({
    world,
    open,
  }) => {
    const follow = (page, { token }) => page.evaluate((token) => void (location.href = `#${token}`), token);
    const account = (page) => page.locator(".account summary").innerText();
    const page = await open(null);
    await page.goto(world.url);
    await page.waitForSelector("[name=token]");
    await follow(page, world.admin);
    await page.says("[data-screen=sign-in]", new RegExp(`as ${world.admin.handle}`));
    assert.equal(page.url(), world.url);
    await page.waitForSelector(`${enter}:focus`);
    await page.keyboard.press("Enter");
    await page.live("live");
    assert.equal(await account(page), world.admin.handle);

    await follow(page, world.agent);
    await page.says("[data-screen=sign-in]", new RegExp(`signed in as ${world.admin.handle}`, "i"));
    assert.equal(page.url(), world.url);
    await page.getByRole("button", { name: `Stay signed in as ${world.admin.handle}` }).click();
    await page.live("live");
    assert.equal(await account(page), world.admin.handle);
    await follow(page, world.agent);
    await page.waitForSelector(`${enter}:focus`);
    await page.keyboard.press("Enter");
    await page.live("live");
    assert.equal(await account(page), world.agent.handle);
    await page.keyboard.press("g");
    await page.keyboard.press("b");
    await page.waitForSelector("[data-screen=board]");
    for (let back = 0; back < 4; back += 1) {
      await page.evaluate(() => history.back());
      await page.waitForURL(world.url);
    }
  },

  "a bad link and a bad token are told, and neither stays in the field": async ({ world, open }) => {
    const page = await open(null);
    await page.goto(`${world.url}#svc_nobody-has-this-token-at-all`);
    await page.says("[role=alert]", /not valid/);
    await page.fill("[name=token]", "svc_nobody");
    await page.press("[name=token]", "Enter");
    await page.says("[role=alert]", /The token is not valid/);
    assert.equal(await page.inputValue("[name=token]"), "");
  },

  "a pasted token signs in, and the address that was opened is shown": async ({ world, open }) => {
    const page = await open(null);
    await page.goto(`${world.url}board?text=parser`);
    await page.fill("[name=token]", `  ${world.admin.token}\n`);
    await page.click(enter);
    await page.waitForSelector("[data-screen=board]");
    assert.equal(page.url(), `${world.url}board?text=parser`);
    assert.equal(await page.inputValue("[name=filter]"), "parser");
  },

  "a person signs in at the identity provider and comes back to where they were": async ({ world, open }) => {
    const page = await open(null);
    // What a person types at a provider, the mock of one takes from the address.
    await page.route(/\/auth\/oidc\/login/, (route) =>
      route.continue({ url: `${route.request().url()}&sub=ida&name=ida` }),
    );
    await page.goto(`${world.url}board?by=channel&workspace=${world.workspaceId}`);
    await page.click(".sign-in a.button");
    await page.waitForSelector("[data-screen=board]");
    await page.live("live");
    assert.match(page.url(), /\/ui\/board\?by=channel/);
  },

  "when the session ends a dialog stands over the screen, and drafts stay": async ({ world, open }) => {
    const { id: channel_id } = await world.admin.call("create_channel", { name: "drafts" });
    const task = await world.admin.call("create_thread", { channel_id, title: "Keeps what is written" });
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.fill("textarea[name=body]", "half a sen");
    await page.evaluate(async () => {
      const base = document.querySelector("script[type=module]").src.split("/ui/f/")[0];
      const headers = { "content-type": "application/json" };
      await fetch(`${base}/auth/logout`, { method: "POST", headers, body: "{}" });
      dispatchEvent(new Event("focus"));
    });
    await page.waitForSelector("dialog[data-dialog=session-ended]");
    await page.live("ended");
    await page.waitForSelector("dialog [name=token]");
    // However often the page is looked at, it asks who is signed in, and nothing else.
    const asked = [];
    page.on("websocket", (socket) => asked.push(socket.url()));
    page.on("request", (request) => asked.push(`${request.method()} ${new URL(request.url()).pathname}`));
    for (const event of ["focus", "online", "focus"]) {
      const answer = page.waitForResponse(() => true);
      await page.evaluate((name) => void dispatchEvent(new Event(name)), event);
      await (await answer).finished();
      await page.evaluate(() => new Promise(requestAnimationFrame));
      await page.live("ended");
    }
    assert.deepEqual([...new Set(asked)], ["GET /auth/session"]);
    await page.keyboard.type("tence");
    assert.equal(await page.inputValue("dialog [name=token]"), "", "what somebody goes on typing is no token");
    assert.equal(await page.inputValue("textarea[name=body]"), "half a sen");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog[data-dialog=session-ended][open]");
    await page.fill("dialog [name=token]", world.admin.token);
    await page.keyboard.press("Enter");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.live("live");
    await page.waitForSelector("textarea[name=body]");
    assert.equal(await page.inputValue("textarea[name=body]"), "half a sen");
  },

  "of another member who signs in instead nothing of the first is there": async ({ world, open }) => {
    const { id: channel_id } = await world.admin.call("create_channel", { name: "of the first" });
    const task = await world.admin.call("create_thread", { channel_id, title: "Belongs to the first" });
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.fill("textarea[name=body]", "a secret draft");
    await page.click(".account summary");
    await page.click("[data-action=end_session]");
    await page.waitForSelector("[data-screen=sign-in]");
    assert.ok(!(await page.content()).includes("Belongs to the first"));
    const kept = await page.evaluate(() => JSON.stringify({ ...sessionStorage }));
    assert.ok(!kept.includes("a secret draft"), kept);
    await page.fill("[name=token]", world.agent.token);
    await page.keyboard.press("Enter");
    await page.live("live");
    assert.equal(await page.locator(".account summary").innerText(), world.agent.handle);
  },
};
