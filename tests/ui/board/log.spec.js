// The log: what happened, and that it is what was written; whatever is changed on its way to the browser is found.

import assert from "node:assert/strict";

const proof = ".verified";
const is = (state) => `${proof}[data-verify=${state}]`;
const CATCH_UP = /^GET \/workspaces\/[^/]+\/events\/catch-up/;

/** Every path to a value of an event, such as ["payload", "$chain", "at"]. */
function pathsOf(value, before = []) {
  if (value === null || typeof value !== "object") return [before];
  return Object.entries(value).flatMap(([name, inner]) => pathsOf(inner, [...before, name]));
}

/** The text of a page of events, of which one has another value at a path. */
function changed(text, lsn, path) {
  const page = JSON.parse(text);
  const event = page.items.find((one) => one.lsn === lsn);
  if (!event) return text;
  const last = path.at(-1);
  const holder = path.slice(0, -1).reduce((at, name) => at[name], event);
  const was = holder[last];
  holder[last] = typeof was === "number" ? was + 1 : typeof was === "boolean" ? !was : was === null ? "x" : `${was}x`;
  return JSON.stringify(page);
}

const verifyAgain = (page) => page.getByRole("button", { name: "Verify again" }).click();

/** A claim, whose event has many columns. */
async function claimed(world, name) {
  const task = await world.task(await world.channel(name), `Is claimed for ${name}`);
  await world.claimed(world.agent, task.id);
  const { items } = await world.admin.call("list_events", { after_id: 0, limit: 500 });
  await world.task(task.channel_id, "Comes after it");
  return { task, event: items.findLast(({ kind }) => kind === "ThreadAssignmentChanged") };
}

export const tests = {
  "it is whole, up to the head, and the server's word stands apart": async ({ world, open }) => {
    await claimed(world, "whole");
    const page = await open(world.admin);
    await page.at("log");
    await page.waitForSelector(is("whole"));
    const { checked, withheld } = await page.locator(proof).evaluate(({ dataset }) => ({ ...dataset }));
    assert.deepEqual([Number(checked), Number(withheld)], [world.admin.lsn, 0]);
    await page.click(`${proof} [data-action=verify_event_chain]`);
    await page.waitForSelector(`${proof} [data-server=valid]`);
    await page.says(`${proof} [data-server]`, new RegExp(`${world.admin.lsn}`));
  },

  "each column that is changed on its way is found, at its event": async ({ world, open }) => {
    const { event } = await claimed(world, "columns");
    const page = await open(world.admin);
    await page.at("log");
    await page.waitForSelector(is("whole"));
    const paths = pathsOf(event);
    assert.ok(paths.length >= 20, `${paths.length}`);
    for (const path of paths) {
      const sane = world.proxy.edit(CATCH_UP, (text) => changed(text, event.lsn, path));
      await verifyAgain(page);
      await page
        .waitForSelector(is("broken"), { timeout: 5_000 })
        .catch(() => assert.fail(`${path.join(".")} is not missed`));
      const at = await page.getAttribute(proof, "data-broken");
      assert.equal(Number(at), event.lsn, path.join("."));
      sane();
      await verifyAgain(page);
      await page.waitForSelector(is("whole"));
    }
  },

  "the first broken event stays in sight wherever one goes, and leads there": async ({ world, open }) => {
    const { event } = await claimed(world, "everywhere");
    const sane = world.proxy.edit(CATCH_UP, (text) => changed(text, event.lsn, ["payload", "reason"]));
    const page = await open(world.admin);
    await page.at("log");
    await page.waitForSelector(`${proof}[data-broken="${event.lsn}"]`);
    sane();
    await page.keyboard.press("g");
    await page.keyboard.press("b");
    await page.waitForSelector("[data-screen=board]");
    await page.waitForSelector(`.strip [data-verify=broken][data-broken="${event.lsn}"]`);
    await page.click(".strip [data-verify=broken] a");
    await page.waitForURL(new RegExp(`log#${event.lsn}$`));
    await page.says("dialog", new RegExp(event.content_hash.slice(7, 15)));
  },

  "what was found of the log is still told after a reload and in other tabs, until it is whole again": async ({
    world,
    open,
  }) => {
    const { event } = await claimed(world, "remembered");
    const sane = world.proxy.edit(CATCH_UP, (text) => changed(text, event.lsn, ["payload", "reason"]));
    const alarm = `.strip [data-verify=broken][data-broken="${event.lsn}"]`;
    const page = await open(world.admin);
    await page.at("board");
    const other = await page.context().newPage();
    await other.goto(`${world.url}people`);
    await other.waitForSelector("main [data-screen=people]");
    await page.at("log");
    await page.waitForSelector(`${proof}[data-broken="${event.lsn}"]`);
    await other.waitForSelector(alarm);
    await page.at("board");
    await page.waitForSelector(alarm);
    await page.says(".strip", new RegExp(`broken at event ${event.lsn}`));
    sane();
    await page.at("log");
    await page.waitForSelector(is("whole"));
    await page.waitForSelector(".strip [data-verify]", { state: "detached" });
    await other.waitForSelector(".strip [data-verify]", { state: "detached" });
    await page.at("board");
    assert.ok(!(await page.has(".strip [data-verify]")));
  },

  "what one may not see is counted as withheld, and the rest is verified": async ({ world, open }) => {
    const { id: channel } = await world.admin.call("create_channel", { name: "behind doors", private: true });
    await world.task(channel, "Is seen by few");
    const person = await world.person("wim");
    const page = await open(person);
    await page.at("log");
    await page.waitForSelector(is("whole"));
    const { withheld } = await page.locator(proof).evaluate(({ dataset }) => ({ ...dataset }));
    assert.ok(Number(withheld) >= 2, withheld);
    await page.says(proof, new RegExp(`${withheld} events are withheld`));
  },

  "an older copy that was restored is told as rolled back, and what is written on it as rewritten": async ({
    world,
    open,
  }) => {
    const channel = await world.channel("copies");
    const page = await open(world.admin);
    await page.at("log");
    await page.waitForSelector(is("whole"));
    await world.servers[0].kill();
    const restore = world.copy();
    await world.servers[0].start();
    await world.task(channel, "Is lost with the copy");
    await page.live("live");
    const proved = world.admin.lsn;
    await verifyAgain(page);
    await page.waitForSelector(`${is("whole")}[data-checked="${proved}"]`);
    await world.servers[0].kill();
    restore();
    await world.servers[0].start();
    await page.reload();
    await page.waitForSelector(is("rewritten"));
    await page.says(proof, new RegExp(`rolled back: it ends before event ${proved}`));
    for (let at = 0; at < 4; at += 1) await world.task(channel, `Is written instead ${at}`);
    await page.reload();
    await page.waitForSelector(is("rewritten"));
    await page.says(proof, new RegExp(`rewritten: event ${proved}`));
    await page.getByRole("button", { name: "Remember this log from now on" }).click();
    await page.waitForSelector(is("whole"));
  },

  "a receipt leads to its event, and filters stand in the address": async ({ world, open }) => {
    const task = await world.task(await world.channel("receipts"), "Leaves a receipt");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.click("[data-panel=claim] [data-of=claim_thread]");
    const receipt = page.locator("[data-panel=claim] p[data-event] a");
    await receipt.waitFor();
    const lsn = /event (\d+)/.exec(await receipt.innerText())[1];
    await receipt.click();
    await page.waitForURL(new RegExp(`log#${lsn}$`));
    await page.says("dialog", /claim/i);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.at("log?kind=ThreadCreated");
    await page.waitForSelector("[data-event]");
    const kinds = await page
      .locator("[data-event]")
      .evaluateAll((rows) => [...new Set(rows.map(({ dataset }) => dataset.kind))]);
    assert.deepEqual(kinds, ["ThreadCreated"]);
    await world.task(task.channel_id, "Arrives in the log");
    await page.says(".log-body", /Arrives in the log/);
  },

  "words that are withdrawn or purged go from the log, its event and an open task": async ({ world, open }) => {
    const task = await world.task(await world.channel("unsaid"), "Has words that go");
    const say = (body) => world.agent.call("post_message", { thread_id: task.id, body });
    const [first] = [await say("withdrawn words"), await say("sekret words")];
    const pages = [await open(world.admin), await open(world.admin)];
    const [log, at] = pages;
    await log.at("log");
    await log.says(".log-body", /sekret words[^]*withdrawn words/);
    await log.click(`a[href$="#${first.lsn}"]`);
    await log.says("dialog", /withdrawn words/);
    await at.at(`t/${task.id}`);
    await at.says(".timeline", /withdrawn words[^]*sekret words/);
    const gone = (page, words) =>
      page.waitForFunction((words) => !document.documentElement.outerHTML.includes(words), words);
    await world.agent.call("delete_message", { message_id: first.id });
    for (const page of pages) await gone(page, "withdrawn words");
    const { name } = await world.admin.call("get_workspace");
    await world.admin.call("purge_workspace", { confirm: name });
    for (const page of pages) await gone(page, "sekret words");
    await at.says(".timeline", /Not here any more/);
  },
};
