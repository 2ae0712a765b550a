// What is shown is what is known: with the server gone and back, a socket that is open and dead, answers that are slow
// or in another order, and a clock that is wrong.

import assert from "node:assert/strict";

/** Puts the clock of a page off by so much, before its scripts; it can be set later, too. */
function wrongClock(given) {
  const Own = Date;
  let off = given;
  globalThis.setClockOff = (by) => (off = by);
  globalThis.Date = class extends Own {
    constructor(...given) {
      super(...(given.length ? given : [Own.now() + off]));
    }
    static now() {
      return Own.now() + off;
    }
  };
}

const claim = "[data-panel=claim]";
const mark = (page) => page.evaluate(() => (globalThis.isSamePage = true));
const isSamePage = (page) => page.evaluate(() => globalThis.isSamePage === true);

export const tests = {
  "a server that is killed: since when, as of what, nothing is sent; and back without a reload": async ({
    world,
    open,
  }) => {
    const task = await world.task(await world.channel("outage"), "Outlives the server");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.fill("textarea[name=body]", "a draft");
    await mark(page);
    const { lsn } = world.admin;
    await page.keyboard.press("Control+k");
    await page.fill("dialog[data-dialog=palette] input", "set the priority");
    await page.keyboard.press("Enter");
    const send = page.locator("dialog form [type=submit]");
    await send.waitFor();
    await world.servers[0].kill();
    await page.live("offline");
    await page.says("dialog [role=status]", /Not while offline/);
    assert.ok(await send.isDisabled());
    await page.says(".strip", new RegExp(`Offline since .*as of event ${lsn}`));
    const button = page.locator(`${claim} [data-of=claim_thread]`);
    assert.equal(await button.getAttribute("aria-disabled"), "true");
    assert.match(await button.getAttribute("title"), /offline/i);
    await world.servers[0].start();
    await page.live("live");
    assert.ok(await isSamePage(page));
    await page.waitForSelector("dialog form [type=submit]:enabled");
    await page.keyboard.press("Escape");
    assert.equal(await page.inputValue("textarea[name=body]"), "a draft");
    await world.agent.call("post_message", { thread_id: task.id, body: "After the outage" });
    await page.says(".timeline", /After the outage/);
    assert.equal(await button.getAttribute("aria-disabled"), null);
  },

  "all that sends is off while offline, and says why": async ({ world, open }) => {
    const { admin, agent } = world;
    const task = await world.task(await world.channel("off"), "Has much to press");
    const said = await agent.call("post_message", { thread_id: task.id, body: "@admin look here" });
    await agent.call("add_reaction", { message_id: said.id, emoji: "🎉" });
    await admin.call("create_vote", { thread_id: task.id, question: "Which?", options: ["one", "other"] });
    const wanted = {
      [`t/${task.id}`]: "cast_vote add_reaction claim_thread",
      inbox: "mark_inbox_read",
      log: "verify_event_chain",
    };
    const pages = [];
    for (const [path, actions] of Object.entries(wanted)) {
      const page = await open(admin);
      await page.at(path);
      for (const action of actions.split(" ")) await page.waitForSelector(`main [data-action=${action}]`);
      pages.push(page);
    }
    const enabled = "main [data-action]:not([aria-disabled])";
    for (const page of pages) assert.ok(await page.has(enabled));
    world.proxy.down(true);
    for (const page of pages) {
      await page.live("offline");
      await page.waitForFunction((enabled) => !document.querySelector(enabled), enabled);
      const silent = page.locator("main [data-action]:not([aria-description])");
      assert.deepEqual(await silent.evaluateAll((all) => all.map((one) => one.outerHTML)), []);
    }
    world.proxy.down(false);
  },

  "a server that comes back with another board: a reload is offered, and drafts outlive it": async ({ world, open }) => {
    const task = await world.task(await world.channel("upgrade"), "Outlives an upgrade");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.fill("textarea[name=body]", "a draft");
    assert.ok(!(await page.locator("[data-outdated]").isVisible()));
    world.proxy.down(true);
    await page.live("offline");
    const isBack = world.proxy.edit(/^GET \/ui\/$/, (text) => text.replaceAll(/f\/[0-9a-f]+\//g, "f/0123456789ab/"));
    world.proxy.down(false);
    await page.says("[data-outdated]", /newer board[^]*Reload/);
    await page.click("[data-outdated] button");
    isBack();
    await page.waitForFunction(() => document.querySelector("[data-outdated]")?.checkVisibility() === false);
    await page.waitForSelector(`[data-screen=task][data-thread="${task.id}"] [data-why]`);
    assert.equal(await page.inputValue("textarea[name=body]"), "a draft");
  },

  "a screen that the server has no more says so, and offers the reload": async ({ world, open }) => {
    const page = await open(world.admin);
    // It is in what the page fetches when it has nothing else to do.
    const rest = /\/rest\.js(\?\d+)?$/;
    await page.route(rest, (route) => route.fulfill({ status: 404, body: "" }));
    await page.at("board");
    const isBack = world.proxy.edit(/^GET \/ui\/$/, (text) => text.replaceAll(/f\/[0-9a-f]+\//g, "f/0123456789ab/"));
    await page.click("[data-place=memory]");
    await page.says("main", /could not be loaded/);
    await page.says("[data-outdated]", /newer board/);
    isBack();
    await page.unroute(rest);
    await page.click("[data-outdated] button");
    await page.waitForSelector("[data-screen=memory]");
    page.problems.splice(0);
  },

  "what happened while the page was away is there when it is back": async ({ world, open }) => {
    const channel = await world.channel("away");
    const task = await world.task(channel, "Goes on alone");
    const page = await open(world.admin);
    await page.at("board?channel=away");
    await page.inLane(task.id, "ready");
    await mark(page);
    world.proxy.down(true);
    await page.live("offline");
    await world.claimed(world.agent, task.id);
    const other = await world.task(channel, "Came meanwhile");
    world.proxy.down(false);
    await page.evaluate(() => dispatchEvent(new Event("online")));
    await page.live("live");
    await page.inLane(task.id, "running");
    await page.inLane(other.id, "ready");
    assert.ok(await isSamePage(page));
  },

  "a socket that is open and says nothing is not believed": async ({ world, open }) => {
    const channel = await world.channel("frozen");
    const task = await world.task(channel, "Is claimed unheard");
    const page = await open(world.admin);
    await page.at("board?channel=frozen");
    await page.inLane(task.id, "ready");
    world.proxy.freeze();
    await world.claimed(world.agent, task.id);
    // Whoever looks at the page again has it probed.
    await page.evaluate(() => dispatchEvent(new Event("focus")));
    await page.inLane(task.id, "running");
    await page.live("live");
    assert.equal(world.proxy.sockets(), 1, "the dead one was replaced");
  },

  "a socket that is open and says nothing while nothing else is answered is no connection": async ({ world, open }) => {
    const task = await world.task(await world.channel("cut off"), "Is claimed far away");
    const page = await open(world.admin);
    await page.at("board?channel=cut%20off");
    await page.inLane(task.id, "ready");
    await mark(page);
    const { lsn } = world.admin;
    world.proxy.freeze();
    world.proxy.down(true);
    await world.claimed(world.agent, task.id);
    await page.evaluate(() => dispatchEvent(new Event("focus")));
    await page.live("offline");
    await page.says(".strip", new RegExp(`Offline since .*as of event ${lsn}`));
    world.proxy.down(false);
    await page.live("live");
    await page.inLane(task.id, "running");
    assert.ok(await isSamePage(page));
  },

  "an answer to something else tells that the socket is dead": async ({ world, open }) => {
    const channel = await world.channel("frozen too");
    const task = await world.task(channel, "Is spoken in unheard");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    world.proxy.freeze();
    await world.agent.call("post_message", { thread_id: task.id, body: "Nobody hears this" });
    await page.fill("textarea[name=body]", "An own word");
    await page.keyboard.press("Control+Enter");
    await page.says(".timeline", /Nobody hears this/);
    await page.live("live");
    assert.equal(await page.locator(".timeline [data-message]").count(), 2);
  },

  "an old answer that comes late changes nothing": async ({ world, open }) => {
    const channel = await world.channel("late");
    const task = await world.task(channel, "Was ready long ago");
    const page = await open(world.admin);
    const answer = world.proxy.hold(/^GET \/workspaces\/[^/]+\/threads/);
    await page.goto(`${world.url}board?channel=late`);
    await answer.kept;
    await page.live("live");
    await world.claimed(world.agent, task.id);
    await world.admin.call("set_thread_priority", { thread_id: task.id, priority: 8 });
    await page.reached(world.admin.lsn);
    answer.release();
    await page.inLane(task.id, "running");
    await page.says(`[data-thread="${task.id}"]`, /Priority \+8/);
  },

  "of two own writes whose answers change places the second stands": async ({ world, open }) => {
    const task = await world.task(await world.channel("two writes"), "Is set twice");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    const set = async (priority) => {
      await page.getByRole("button", { name: "Actions", exact: true }).click();
      await page.click('dialog [data-of="set_thread_priority"]');
      await page.fill("dialog [name=priority]", priority);
      await page.click("dialog form [type=submit]");
    };
    const first = world.proxy.hold(/^PUT \/threads\/[^/]+\/priority/);
    await set("5");
    await first.kept;
    // The form stays until it is answered; the second comes from elsewhere.
    await page.says("[data-panel=about]", /\b5\b/);
    await world.admin.call("set_thread_priority", { thread_id: task.id, priority: 9 });
    await page.reached(world.admin.lsn);
    first.release();
    await page.waitForSelector("dialog", { state: "detached" });
    await page.says("[data-panel=about]", /\b9\b/);
  },

  "with every answer late the board is the same": async ({ world, open }) => {
    const channel = await world.channel("slow");
    const task = await world.task(channel, "Is slow");
    const quick = world.proxy.delay(/^(GET|HEAD) /, 250);
    const page = await open(world.admin);
    await page.at("board?channel=slow");
    await page.inLane(task.id, "ready");
    await world.claimed(world.agent, task.id);
    await page.inLane(task.id, "running");
    await page.locator(`[data-thread="${task.id}"] a.title`).click();
    await page.says(claim, /Held by[^]*worker/);
    quick();
  },

  "answers that are no answers are told, and nothing breaks": async ({ world, open }) => {
    const task = await world.task(await world.channel("garbled"), "Is garbled");
    const sane = world.proxy.edit(/^GET \/threads\/[^/]+\/budget/, () => "<html>504 Gateway Time-out");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.says(claim, /can be claimed/);
    assert.ok(!(await page.content()).includes("Gateway"));
    sane();
  },

  "a clock that is ten minutes ahead, or behind, counts leases by that of the server": async ({ world, open }) => {
    const task = await world.task(await world.channel("clock"), "Has five minutes");
    await world.claimed(world.agent, task.id, { lease_secs: 299 });
    for (const off of [600_000, -600_000]) {
      const page = await open(world.admin, { before: wrongClock, given: off });
      await page.at(`t/${task.id}`);
      await page.says(`${claim} .left`, /\b[34] min.* left/);
    }
  },

  "a clock that is set back an hour while the page is open stops no read, and no lease grows": async ({ world, open }) => {
    const task = await world.task(await world.channel("clock set"), "Has as long as before");
    await world.admin.call("set_thread_budget", { thread_id: task.id, max_tokens: 9_000 });
    const { claim_lease_id } = await world.claimed(world.agent, task.id, { lease_secs: 299 });
    const page = await open(world.admin, { before: wrongClock, given: 0 });
    await page.at(`t/${task.id}`);
    await page.says(`${claim} .left`, /\b[34] min.* left/);
    await page.evaluate(() => setClockOff(-3_600_000));
    const used = { model: "m", report_id: "r", tokens: 700, turns: 1, usd_micros: 1 };
    await world.agent.call("report_usage", { thread_id: task.id, claim_lease_id, ...used });
    await page.says("[data-panel=budget]", /700 of 9K/);
    await page.says(`${claim} .left`, /\b[34] min.* left/);
  },

  "a lease that is due is asked for, and never guessed": async ({ world, open }) => {
    const task = await world.task(await world.channel("due"), "Lapses soon");
    await world.claimed(world.agent, task.id, { lease_secs: 10 });
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.waitForSelector(`${claim} .left[data-left=red]`);
    await page.says(`${claim} .left`, /Ends in \d+ s/);
    await page.waitForSelector(`${claim} [data-why=free]`);
    await page.says(".timeline", /lapsed/);
  },

  "a session that may not follow the log says so, and reads anew when one looks": async ({ world, open }) => {
    const capabilities = ["workspace:read", "thread:transition"];
    const { secret } = await world.admin.call("mint_token", { member_id: world.agent.id, capabilities });
    const channel = await world.channel("unfollowed");
    const page = await open(world.clientOf(secret));
    await page.at("board?channel=unfollowed", "behind");
    await page.says(".strip", /event:subscribe/);
    const task = await world.task(channel, "Is seen when one looks");
    await page.evaluate(() => dispatchEvent(new Event("focus")));
    await page.inLane(task.id, "ready");
  },

  "what one says and does oneself is shown to a session that may not follow the log": async ({ world, open }) => {
    const task = await world.task(await world.channel("alone"), "Is talked in without a socket");
    const all = (await world.admin.call("whoami")).capabilities;
    const capabilities = all.filter((one) => one !== "event:subscribe");
    const { secret } = await world.admin.call("mint_token", { member_id: world.admin.id, capabilities });
    const page = await open(world.clientOf(secret));
    await page.at(`t/${task.id}`, "behind");
    await page.fill("textarea[name=body]", "I say so myself");
    await page.keyboard.press("Control+Enter");
    await page.says(".timeline [data-message]", /I say so myself/);
    await page.click(`${claim} [data-of=claim_thread]`);
    await page.says(claim, /Held by/);
  },

  "more than two thousand events behind, all is read anew under the kept screen": async ({ world, open }) => {
    const channel = await world.channel("far");
    const task = await world.task(channel, "Changes two thousand times");
    const page = await open(world.admin);
    await page.at("board?channel=far");
    await page.inLane(task.id, "ready");
    await mark(page);
    world.proxy.down(true);
    await page.live("offline");
    let left = 2_040;
    const work = async () => {
      for (let at = (left -= 1); at >= 0; at = left -= 1) {
        await world.agent.call("set_thread_priority", { thread_id: task.id, priority: at % 90 });
      }
    };
    await Promise.all(Array.from({ length: 8 }, work));
    await world.claimed(world.agent, task.id);
    world.proxy.down(false);
    await page.evaluate(() => dispatchEvent(new Event("online")));
    await page.inLane(task.id, "running");
    await page.live("live");
    assert.ok(await isSamePage(page));
  },
};
