// Behind a real nginx that has other things at the same address, strips a path and puts another name into Host: the
// service is told its public address and that name, and everything works as without.

import assert from "node:assert/strict";

const PREFIX = "/tools/svc";
const HOST = "svc.internal";

export const world = {
  fronts: [{ name: "nginx", path: PREFIX, host: HOST }],
  publicPath: PREFIX,
  variables: { SVC_ALLOWED_HOSTS: HOST },
};

export const tests = {
  "a link signs in, what others do arrives, and a deep address is opened again": async ({ world, open }) => {
    const channel = await world.channel("behind");
    const page = await open(null);
    const outside = [];
    page.on("request", (request) => {
      if (!new URL(request.url()).pathname.startsWith(`${PREFIX}/`)) outside.push(request.url());
    });
    await page.goto(`${world.url}#${world.admin.token}`);
    await page.waitForSelector("[data-screen=sign-in] button");
    assert.equal(page.url(), world.url);
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-screen=now], [data-screen=board]");
    await page.live("live");
    await page.at("board");
    const task = await world.task(channel, "Arrives through nginx");
    await page.inLane(task.id, "ready");
    await page.locator(`[data-thread="${task.id}"] a.title`).click();
    await page.waitForURL(`${world.url}t/${task.id}`);
    await page.reload();
    await page.says("[data-screen=task]", /Arrives through nginx/);
    await page.live("live");
    await world.claimed(world.agent, task.id);
    await page.says("[data-panel=claim]", /Held by[^]*worker/);
    await page.fill("textarea[name=body]", "Said through nginx");
    await page.keyboard.press("Control+Enter");
    await page.says(".timeline [data-message]", /through nginx/);
    assert.deepEqual(outside, []);
  },

  "a pasted token signs in at the address that was opened": async ({ world, open }) => {
    const page = await open(null);
    await page.goto(`${world.url}board?text=nothing`);
    await page.fill("[name=token]", world.agent.token);
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-screen=board]");
    await page.live("live");
    assert.equal(page.url(), `${world.url}board?text=nothing`);
  },

  "the identity provider sends a person back below the path": async ({ world, open }) => {
    const page = await open(null);
    await page.route(/\/auth\/oidc\/login/, (route) =>
      route.continue({ url: `${route.request().url()}&sub=ida&name=ida` }),
    );
    await page.goto(`${world.url}board?by=channel`);
    await page.click(".sign-in a.button");
    await page.waitForSelector("[data-screen=board]");
    await page.live("live");
    assert.equal(page.url(), `${world.url}board?by=channel`);
  },

  "who opens the address alone comes to the board": async ({ world, open }) => {
    const page = await open(world.admin);
    await page.goto(world.url.replace(/ui\/$/, ""));
    await page.waitForSelector("[data-screen=now]");
    await page.live("live");
    assert.equal(page.url(), world.url);
  },

  "the link of an approval has the public address, and is answered there": async ({ world, open }) => {
    const task = await world.task(await world.channel("links"), "Hands out a link");
    await world.claimed(world.agent, task.id);
    const gate = await world.agent.call("request_approval", { thread_id: task.id, question: "Through nginx?" });
    const { link } = await world.agent.refused(
      "approval_decide",
      { gate_id: gate.id, decision: "accept" },
      "needs-person",
    );
    assert.ok(link.url.startsWith(`${world.url}approvals/`), link.url);
    const page = await open(null);
    await page.goto(link.url);
    await page.fill("[name=token]", world.admin.token);
    await page.keyboard.press("Enter");
    await page.says("[data-screen=approval]", /Through nginx\?/);
    const accept = page.locator(`[data-gate="${gate.id}"] [data-of="approval_decide accept"]`).first();
    await accept.click();
    await accept.click();
    await page.waitForSelector(`[data-gate="${gate.id}"][data-state=accepted]`);
  },
};
