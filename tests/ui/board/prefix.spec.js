// Behind a proxy that strips a path and rewrites Host: the service is told its public address, and nothing else.

import assert from "node:assert/strict";

const PREFIX = "/team/board";

export const world = { behind: { prefix: PREFIX, rewritesHost: true }, publicPath: `${PREFIX}/` };

export const tests = {
  "one is signed in and live, and every address stays under the path": async ({ world, open }) => {
    const task = await world.task(await world.channel("behind"), "Stands behind a proxy");
    const page = await open(null);
    const asked = [];
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    await page.goto(`${world.url}#${world.admin.token}`);
    await page.waitForSelector("[data-screen=sign-in] button");
    await page.keyboard.press("Enter");
    await page.waitForSelector("main [data-screen]");
    await page.live("live");
    await page.at("board");
    await page.inLane(task.id, "ready");
    await world.claimed(world.agent, task.id);
    await page.inLane(task.id, "running");
    await page.locator(`[data-thread="${task.id}"] a.title`).click();
    await page.waitForURL(`${world.url}t/${task.id}`);
    const linked = await page.evaluate(() => {
      const links = [...document.querySelectorAll("link[rel=icon], link[rel=manifest]")];
      return Promise.all(links.map(async ({ href }) => (await fetch(href)).status));
    });
    assert.deepEqual(linked, [200, 200], "the icon and the manifest are where they were");
    await page.fill("textarea[name=body]", "Said through a proxy");
    await page.keyboard.press("Control+Enter");
    await page.says(".timeline [data-message]", /through a proxy/);
    await page.reload();
    await page.says(".timeline [data-message]", /through a proxy/);
    assert.deepEqual(
      asked.filter((path) => !path.startsWith(`${PREFIX}/`)),
      [],
    );
    assert.ok(asked.length > 20);
  },

  "a link to an approval has the path, also of a service that is not told its address": async ({ world, open }) => {
    const task = await world.task(await world.channel("handed"), "Hands out a link");
    await world.claimed(world.agent, task.id);
    const asked = { thread_id: task.id, question: "May I?", needs_person: true };
    const gate = await world.agent.call("request_approval", asked);
    const page = await open(world.agent);
    await page.route(/\/approval-gates\/.*\/decision/, async (route) => {
      const response = await route.fetch();
      const body = (await response.text()).replace(world.url, "/ui/");
      await route.fulfill({ response, body });
    });
    await page.at(`t/${task.id}`);
    await page.click(`[data-gate="${gate.id}"] [data-of=approval_link]`);
    await page.says(`[data-gate="${gate.id}"] [data-copy=link]`, new RegExp(`^${world.url}approvals/`));
  },
};
