// Tabs of one browser, which have one cookie; and a page that the browser has put away and brings back.

import assert from "node:assert/strict";

const CHANGES = new Set(["POST", "PUT", "PATCH", "DELETE"]);

/** Writes down every text that is ever on a page, and whose page it is by then; from before its scripts. */
function watchTexts() {
  globalThis.texts = [];
  const see = () => {
    const whose = document.querySelector(".account summary")?.textContent ?? "";
    globalThis.texts.push([whose, document.documentElement.textContent]);
  };
  new MutationObserver(see).observe(document, { subtree: true, childList: true, characterData: true });
}

/** A task in a private channel, with a message and a draft of the administrator on its page. */
async function privately(world, page, name) {
  const { id: channel_id } = await world.admin.call("create_channel", { name, private: true });
  const task = await world.task(channel_id, `Only for few: ${name}`);
  await world.admin.call("post_message", { thread_id: task.id, body: `whispered in ${name}` });
  await page.at(`t/${task.id}`);
  await page.says(".timeline", new RegExp(`whispered in ${name}`));
  await page.fill("textarea[name=body]", `a draft in ${name}`);
  return task;
}

export const tests = {
  "another member signs in beside: nothing is sent as the other, and every word of the first is gone before": async ({
    world,
    open,
  }) => {
    const page = await open(world.admin, { before: watchTexts });
    const task = await privately(world, page, "the first");
    const changes = [];
    page.on("request", (request) => CHANGES.has(request.method()) && changes.push(request.url()));
    const beside = await page.context().newPage();
    await beside.goto(`${world.url}#${world.agent.token}`);
    await beside.click("button[data-action=create_session]");
    await page.waitForFunction(
      (handle) => document.querySelector(".account summary")?.innerText === handle,
      world.agent.handle,
    );
    await page.live("live");
    await page.says("main", /not there|may not see/);
    const { texts, kept, body } = await page.evaluate(() => ({
      texts: globalThis.texts,
      kept: JSON.stringify([{ ...sessionStorage }, history.state, location.href]),
      body: document.documentElement.outerHTML,
    }));
    const isOfFirst = (text) => /the first/.test(text);
    const drawn = (handle) => texts.filter(([whose]) => whose === handle).map(([, text]) => text);
    assert.ok(drawn(world.admin.handle).some(isOfFirst) && drawn(world.agent.handle).length > 0);
    assert.deepEqual(drawn(world.agent.handle).filter(isOfFirst), []);
    assert.ok(!isOfFirst(kept) && !isOfFirst(body), kept);
    assert.deepEqual(changes, [], "nothing was sent as the other");
    const { items } = await world.admin.call("list_messages", { thread_id: task.id });
    assert.equal(items.length, 1);
  },

  "one signs out beside: the other tab says that the session has ended": async ({ world, open }) => {
    const page = await open(world.admin);
    await page.at("board");
    const tab = await page.context().newPage();
    await tab.goto(`${world.url}board`);
    await tab.waitForSelector("html[data-live=live]");
    await tab.click(".account summary");
    await tab.click("[data-action=end_session]");
    await page.waitForSelector("dialog[data-dialog=session-ended]");
    await page.live("ended");
  },

  "a page that is left and come back to shows what is so now, and goes on": async ({ world, open }) => {
    const channel = await world.channel("left");
    const task = await world.task(channel, "Changes while nobody looks");
    const page = await open(world.admin);
    await page.at("board?channel=left");
    await page.inLane(task.id, "ready");
    await page.evaluate(() => {
      globalThis.isKept = true;
      addEventListener("pageshow", ({ persisted }) => (globalThis.isPersisted = persisted));
    });
    await page.goto("about:blank");
    await world.claimed(world.agent, task.id);
    const other = await world.task(channel, "Has come meanwhile");
    await page.goBack();
    await page.inLane(task.id, "running");
    await page.inLane(other.id, "ready");
    await page.live("live");
    const { isKept, isPersisted } = await page.evaluate(() => ({
      isKept: globalThis.isKept === true,
      isPersisted: globalThis.isPersisted === true,
    }));
    assert.equal(isPersisted, isKept, "it was brought back, or is a new one");
    await world.admin.call("transition_thread", { thread_id: other.id, action: "close" });
    await page.inLane(other.id, "done");
  },

  "a page that was put away with its socket does not believe that when it is back": async ({ world, open }) => {
    const channel = await world.channel("put away");
    const task = await world.task(channel, "Changes meanwhile");
    const page = await open(world.admin);
    await page.at("board?channel=put+away");
    await page.inLane(task.id, "ready");
    world.proxy.freeze();
    await world.claimed(world.agent, task.id);
    await page.evaluate(() => dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true })));
    await page.inLane(task.id, "running");
    await page.live("live");
  },
};
