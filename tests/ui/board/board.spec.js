// The board: each task in its lane, at once when others act, and nothing moves under whoever is at it.

import assert from "node:assert/strict";

const SAMPLES = 50;
const footprint = (value) => ({ repo: "acme/core", mode: "exclusive", items: [{ kind: "path", value }] });

/** The card under a point of the screen. */
const cardAt = (page, x, y) =>
  page.evaluate(([x, y]) => document.elementFromPoint(x, y)?.closest("[data-thread]")?.dataset.thread, [x, y]);

export const tests = {
  "each task stands in its lane, and goes to another when others act": async ({ world, open }) => {
    const { admin, agent } = world;
    const channel = await world.channel("lanes");
    const page = await open(admin);
    await page.at("board");
    const task = await world.task(channel, "Goes through all lanes");
    await page.inLane(task.id, "ready");
    const claim = await agent.call("claim_thread", { thread_id: task.id, lease_secs: 1200 });
    await page.inLane(task.id, "running");
    await page.says(`[data-thread="${task.id}"]`, /No word yet/);
    await agent.call("acknowledge_claim", { thread_id: task.id, claim_lease_id: claim.claim_lease_id });
    await page.waitForFunction(
      (id) => !document.querySelector(`[data-thread="${id}"]`).innerText.includes("No word"),
      task.id,
    );
    await page.says(`[data-thread="${task.id}"]`, /worker[^]*\d+ min left/);
    const gate = await agent.call("request_approval", { thread_id: task.id, question: "May I?" });
    await page.inLane(task.id, "needs-you");
    await admin.call("approval_decide", { gate_id: gate.id, decision: "accept" });
    await page.inLane(task.id, "running");
    await agent.call("set_thread_result", {
      thread_id: task.id,
      claim_lease_id: claim.claim_lease_id,
      result: { branch: "done" },
      action: "start_review",
    });
    await page.inLane(task.id, "in-review");
    await admin.call("transition_thread", { thread_id: task.id, action: "close" });
    await page.inLane(task.id, "done");
  },

  "a card has its priority in words, whatever else is to be said of it": async ({ world, open }) => {
    const task = await world.task(await world.channel("urgent"), "Is urgent", { priority: 7 });
    await world.agent.call("claim_thread", { thread_id: task.id, lease_secs: 1200 });
    await world.agent.call("request_approval", { thread_id: task.id, question: "May I?" });
    const page = await open(world.admin);
    await page.at("board?channel=urgent");
    await page.inLane(task.id, "needs-you");
    assert.deepEqual(await page.texts(`[data-thread="${task.id}"] .chip`), ["No word yet", "Priority +7"]);
  },

  "what was closed last stands first, also after a reload, whatever is said of what was closed before": async ({
    world,
    open,
  }) => {
    const channel = await world.channel("closings");
    const tasks = [];
    for (const title of ["Made first", "Made second", "Made third"]) tasks.push(await world.task(channel, title));
    const [first, second, third] = tasks.map(({ id }) => id);
    const close = (thread_id) => world.admin.call("transition_thread", { thread_id, action: "close" });
    await close(first);
    await close(third);
    const page = await open(world.admin);
    await page.at("board?channel=closings");
    const stand = (...ids) =>
      page.waitForFunction((wanted) => {
        const cards = document.querySelectorAll("[data-lane=done] [data-thread]");
        return [...cards].map(({ dataset }) => dataset.thread).join() === wanted;
      }, ids.join());
    await stand(third, first);
    await close(second);
    await stand(second, third, first);
    await page.reload();
    await stand(second, third, first);
    await world.admin.call("update_thread", { thread_id: first, title: "Made first of all" });
    await page.says(`[data-thread="${first}"]`, /first of all/);
    await stand(second, third, first);
  },

  "what a claim touches blocks another, which says why, until it is released": async ({ world, open }) => {
    const { admin, agent } = world;
    const channel = await world.channel("blocked");
    const first = await world.task(channel, "Holds the parser", { footprint: footprint("src/parser") });
    const second = await world.task(channel, "Wants the parser", { footprint: footprint("src/parser/lex.rs") });
    const third = await world.task(channel, "Waits for the other", { depends_on: [second.id] });
    const page = await open(admin);
    await page.at("board?channel=blocked");
    await page.inLane(third.id, "blocked");
    await page.says(`[data-thread="${third.id}"]`, /It waits for another task/);
    await page.inLane(second.id, "ready");
    const claim = await world.claimed(agent, first.id);
    await page.inLane(second.id, "blocked");
    await page.says(
      `[data-thread="${second.id}"]`,
      /src\/parser\/lex\.rs is held by worker on Holds the parser, until/,
    );
    await agent.call("release_claim", { thread_id: first.id, claim_lease_id: claim.claim_lease_id });
    await page.inLane(second.id, "ready");
  },

  "where more wait than are told, Blocked says so, and Ready promises nothing": async ({ world, open }) => {
    const channel = await world.channel("manywait");
    const held = await world.task(channel, "Holds the lexer", { footprint: footprint("src/lexer") });
    const waits = await world.task(channel, "Wants the lexer", { footprint: footprint("src/lexer/a.rs") });
    const free = await world.task(channel, "Wants nothing");
    await world.claimed(world.agent, held.id);
    const page = await open(world.admin);
    await page.route(/\/deferred\?/, (route) => route.fulfill({ json: { items: [], next_cursor: "1" } }));
    await page.at("board?channel=manywait");
    await page.says("[data-lane=blocked] .count", /^\d+\+$/);
    await page.inLane(waits.id, "ready");
    await page.inLane(free.id, "ready");
    await page.says("[data-lane=ready] .count", /^1\+$/);
    await page.says(`[data-thread="${waits.id}"]`, /Free as far as is known/);
    assert.ok(!(await page.locator(`[data-thread="${free.id}"]`).innerText()).includes("as far as is known"));
  },

  "nothing moves under a pointer that rests": async ({ world, open }) => {
    const channel = await world.channel("still");
    const tasks = [];
    for (let at = 0; at < 6; at += 1) tasks.push(await world.task(channel, `Rests ${at}`, { priority: 6 - at }));
    const page = await open(world.admin);
    await page.at("board");
    await page.inLane(tasks[5].id, "ready");
    const box = await page.locator(`[data-lane=ready] [data-thread="${tasks[1].id}"]`).boundingBox();
    const [x, y] = [box.x + 40, box.y + box.height / 2];
    await page.mouse.move(x, y);
    let same = 0;
    for (let sample = 0; sample < SAMPLES; sample += 1) {
      await world.task(channel, `Arrives ${sample}`, { priority: 50 + sample });
      if (sample % 5 === 0) await world.admin.call("set_thread_priority", { thread_id: tasks[1].id, priority: sample });
      if (sample % 9 === 0)
        await world.admin.call("transition_thread", {
          thread_id: tasks[5].id,
          action: sample % 2 ? "reopen" : "close",
        });
      await page.reached(world.admin.lsn);
      if ((await cardAt(page, x, y)) === tasks[1].id) same += 1;
    }
    assert.equal(same, SAMPLES);
    // What it says is up to date all the while.
    await page.says(`[data-thread="${tasks[1].id}"]`, /Priority \+45/);
    await page.says("[data-lane=ready] .news", new RegExp(`${SAMPLES} new`));
    await page.click("[data-lane=ready] .news");
    await page.mouse.move(2, 2);
    const last = page.locator("[data-lane=ready] [data-thread]").first();
    assert.match(await last.innerText(), /Arrives 49/);
  },

  "a card that has the focus stays, and says where it has gone": async ({ world, open }) => {
    const channel = await world.channel("focus");
    const task = await world.task(channel, "Is looked at", { priority: 90 });
    const page = await open(world.admin);
    await page.at("board?channel=focus");
    await page.inLane(task.id, "ready");
    await page.focus(`[data-thread="${task.id}"] a.title`);
    await world.claimed(world.agent, task.id);
    await page.says(`[data-lane=ready] [data-thread="${task.id}"]`, /Now in Running/);
    await page.keyboard.press("Escape");
    await page.inLane(task.id, "running");
  },

  "filters stand in the address and come back with it": async ({ world, open }) => {
    const [one, other] = [await world.channel("filter-one"), await world.channel("filter-two")];
    const wanted = await world.task(one, "Is wanted", { required_skills: [] });
    const foreign = await world.task(other, "Is foreign");
    const page = await open(world.admin);
    await page.at("board?channel=filter-two");
    await page.inLane(foreign.id, "ready");
    await page.fill("[name=filter]", "in:filter-one wanted");
    await page.waitForSelector(`[data-thread="${foreign.id}"]`, { state: "detached" });
    await page.waitForURL(/channel=filter-one/);
    assert.match(page.url(), /text=wanted/);
    await page.inLane(wanted.id, "ready");
    await page.reload();
    await page.inLane(wanted.id, "ready");
    assert.equal(await page.inputValue("[name=filter]"), "in:filter-one wanted");
    assert.ok(!(await page.has(`[data-thread="${foreign.id}"]`)));
    await page.selectOption("[name=by]", "channel");
    await page.waitForURL(/by=channel/);
    await page.says(`[data-thread="${wanted.id}"]`, /filter-one/);
    const there = await world.task(await world.channel("filter my team"), "Is found there");
    await page.at("board?channel=filter+my+team");
    assert.equal(await page.inputValue("[name=filter]"), 'in:"filter my team"');
    await page.locator("[name=filter]").press("End");
    await page.locator("[name=filter]").pressSequentially(" found");
    await page.waitForURL(/text=found&channel=filter\+my\+team/);
    await page.inLane(there.id, "ready");
  },

  "of more tasks than it shows it has the newest, and a filter those that fit": async ({ world, open }) => {
    const channel = await world.channel("long ago");
    const old = await world.task(channel, "Is older than ten thousand others");
    const page = await open(world.admin);
    // As many as the board reads, all of them newer, and more behind them.
    let made = 0;
    const fill = (text) => {
      const newer = () => {
        made += 1;
        return { ...old, id: `${old.id.slice(0, -5)}${String(made).padStart(5, "0")}`, title: `Newer ${made}` };
      };
      return JSON.stringify({ ...JSON.parse(text), items: Array.from({ length: 500 }, newer), next_cursor: "more" });
    };
    const isBack = world.proxy.edit(/^GET \/workspaces\/[^/]+\/threads\?.*state=open.*newest_first=true/, fill);
    await page.route(/threads\?.*cursor=more/, (route) =>
      route.continue({ url: route.request().url().replace(/&?cursor=more/, "") }),
    );
    await page.at("board?text=older");
    await page.says(".board-head", /The newest 1\d[,.]\d{3} tasks are looked through/);
    assert.ok(!(await page.has(`[data-thread="${old.id}"]`)));
    await page.fill("[name=filter]", "older in:\"long ago\"");
    await page.inLane(old.id, "ready");
    await page.waitForFunction(() => document.querySelector(".board-head > .small[hidden]"));
    await page.fill("[name=filter]", "");
    await page.says(".board-head", /The newest 1\d[,.]\d{3} tasks are shown/);
    isBack();
  },

  "what a filter hides is not chosen, and a card that somebody changes fades": async ({ world, open }) => {
    const channel = await world.channel("hidden");
    const [one, other] = [await world.task(channel, "Stays in sight"), await world.task(channel, "Goes out of it")];
    const page = await open(world.admin);
    await page.at("board?channel=hidden");
    await page.inLane(other.id, "ready");
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    await page.keyboard.press("j");
    await page.keyboard.press("Shift+X");
    await page.says(".chosen", /2 tasks are chosen/);
    await page.fill("[name=filter]", "in:hidden stays");
    await page.says(".chosen", /1 task is chosen/);
    assert.ok(!(await page.has(".card.changed")));
    await world.agent.call("set_thread_priority", { thread_id: one.id, priority: 9 });
    await page.waitForSelector(`.card.changed[data-thread="${one.id}"]`);
  },

  "p pauses what arrives, and what has arrived is counted": async ({ world, open }) => {
    const channel = await world.channel("paused");
    const page = await open(world.admin);
    await page.at("board?channel=paused");
    await page.keyboard.press("p");
    await page.live("paused");
    const task = await world.task(channel, "Arrives meanwhile");
    await page.says(".strip", /[1-9]\d* wait/);
    assert.ok(!(await page.has(`[data-thread="${task.id}"]`)));
    await page.keyboard.press("c");
    await page.fill("dialog [name=title]", "Is made meanwhile");
    await page.selectOption("dialog [name=channel_id]", channel);
    await page.click("dialog form [type=submit]");
    await page.says("h1", /Is made meanwhile/);
    await page.goBack();
    await page.says("[data-lane=ready]", /Is made meanwhile/);
    assert.ok(!(await page.has(`[data-thread="${task.id}"]`)), "what others do still waits");
    await page.keyboard.press("p");
    await page.live("live");
    await page.inLane(task.id, "ready");
  },

  "several are chosen and closed at once; what one refuses stands on it": async ({ world, open }) => {
    const channel = await world.channel("many");
    const tasks = [];
    for (let at = 0; at < 3; at += 1) tasks.push(await world.task(channel, `One of many ${at}`, { priority: 3 - at }));
    await world.admin.call("create_child_thread", { thread_id: tasks[1].id, title: "Keeps it open", priority: -1 });
    const page = await open(world.admin);
    await page.at("board?channel=many&text=many");
    await page.inLane(tasks[2].id, "ready");
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await page.keyboard.press("Shift+X");
    await page.says(".chosen", /3 tasks are chosen/);
    await page.click(".chosen .primary");
    const close = page.locator('dialog [data-of="transition_thread close"]');
    await close.click();
    await close.click();
    await page.says("dialog [role=status]", /3 of 3; 1 refused/);
    await page.says("dialog h2", /1 task is chosen/);
    await page.waitForSelector('dialog [data-of="transition_thread close"]:not([aria-disabled])');
    await page.keyboard.press("Escape");
    await page.inLane(tasks[0].id, "done");
    await page.inLane(tasks[2].id, "done");
    await page.says(`[data-thread="${tasks[1].id}"]`, /A child task is not closed/);
  },
};
