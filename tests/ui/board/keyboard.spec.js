// All of it by keyboard: from signing in to closing a task, and where the focus is all the while.

import assert from "node:assert/strict";

/** The focus can be seen; a card has a ring as a whole. After the last stop it is on nothing of the page. */
async function isSeen(page) {
  const seen = await page.evaluate(() => {
    const at = document.activeElement;
    const { outlineStyle, outlineWidth } = getComputedStyle(at.closest(".card:has(.title:focus)") ?? at);
    return at === document.body || (outlineStyle !== "none" && parseFloat(outlineWidth) >= 2);
  });
  assert.ok(seen, await page.evaluate(() => document.activeElement.outerHTML.slice(0, 300)));
}

/** Tabs on until the focus is on what fits, and sees it at every stop. */
async function tabTo(page, selector) {
  for (let stop = 0; stop < 120; stop += 1) {
    await page.keyboard.press("Tab");
    await isSeen(page);
    if (await page.evaluate((selector) => document.activeElement.matches(selector), selector)) return;
  }
  assert.fail(`${selector} is not reached`);
}

const focused = (page) => page.evaluate(() => document.activeElement.closest("[data-thread]")?.dataset.thread ?? null);

const rowOf = (page) =>
  page.evaluate(() => {
    const at = document.activeElement;
    const inWindow = ".rows :is([data-thread], [data-member], [data-event])";
    const row = at.closest(".held-rows > [data-key]") ?? at.closest(inWindow);
    const { key, thread, member, event } = row?.dataset ?? {};
    return key ?? thread ?? member ?? event ?? null;
  });

/** Lists, by the screens that show them, and the link of a row that leads elsewhere. */
const LISTS = { "": "a.title", inbox: "a.title", people: "a.title", log: ".where a", "board?channel=back": "a.title" };

/** A task of which the agent asks something. */
async function asking(world, channel, title) {
  const task = await world.task(channel, title);
  await world.claimed(world.agent, task.id);
  const gate = await world.agent.call("request_approval", { thread_id: task.id, question: `${title}?` });
  return { task, gate };
}

const accept = (gate) => `[data-gate="${gate.id}"] [data-of="approval_decide accept"]`;

export const tests = {
  "a task is made, found, claimed, spoken in and closed": async ({ world, open }) => {
    await world.channel("by keys");
    const page = await open(null);
    await page.goto(`${world.url}board#${world.admin.token}`);
    await page.waitForSelector("[data-screen=sign-in] button");
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-screen=board]");
    await page.live("live");
    await page.keyboard.press("c");
    await page.waitForSelector("dialog [name=title]");
    await page.waitForFunction(() => document.activeElement.name === "title");
    await page.keyboard.type("Is done by keys");
    await tabTo(page, "dialog form [type=submit]");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/t\//);
    const id = /\/t\/([^#?]+)/.exec(page.url())[1];
    await page.waitForSelector("[data-why=free]");
    await page.keyboard.press("g");
    await page.keyboard.press("b");
    await page.waitForSelector("[data-screen=board]");
    await page.inLane(id, "ready");
    await page.keyboard.press("/");
    await page.keyboard.type("by keys");
    await page.waitForURL(/text=by/);
    await page.keyboard.press("Escape");
    assert.equal(await focused(page), id);
    await page.keyboard.press("Space");
    await page.waitForSelector("dialog[data-dialog=peek]");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    assert.equal(await focused(page), id, "the focus is back where it was");
    await page.keyboard.press("Enter");
    await page.waitForSelector(`[data-screen=task][data-thread="${id}"] [data-why]`);
    await page.keyboard.press("i");
    await page.says("[data-panel=claim]", /Held by/);
    await page.keyboard.press("r");
    await page.keyboard.type("c i a j k ? typed, not pressed");
    await page.keyboard.press("Control+Enter");
    await page.says(".timeline", /typed, not pressed/);
    await page.keyboard.press("Escape");
    await tabTo(page, '[data-of="transition_thread close"]');
    await page.keyboard.press("Enter");
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-why=done]");
    await page.keyboard.press("Escape");
    await page.waitForSelector("[data-screen=board]");
  },

  "j, k, h and l go from card to card, and the focus is seen": async ({ world, open }) => {
    const channel = await world.channel("moves");
    const tasks = [];
    for (let at = 0; at < 3; at += 1) tasks.push(await world.task(channel, `Moves ${at}`, { priority: 9 - at }));
    const running = await world.task(channel, "Runs");
    await world.claimed(world.agent, running.id);
    const page = await open(world.admin);
    await page.at("board?channel=moves");
    await page.inLane(running.id, "running");
    await page.inLane(tasks[2].id, "ready");
    await page.keyboard.press("j");
    assert.equal(await focused(page), running.id);
    await isSeen(page);
    await page.keyboard.press("l");
    assert.equal(await focused(page), tasks[0].id);
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    assert.equal(await focused(page), tasks[2].id);
    await page.keyboard.press("k");
    assert.equal(await focused(page), tasks[1].id);
    await page.keyboard.press("h");
    assert.equal(await focused(page), running.id);
  },

  "? tells the keys, single letters can be switched off, and commands work still": async ({ world, open }) => {
    const task = await world.task(await world.channel("letters"), "Is not chosen by a letter");
    const page = await open(world.admin);
    await page.at("board?channel=letters");
    await page.inLane(task.id, "ready");
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[data-dialog=help]");
    await page.says("dialog", /Claim/);
    const letters = page.locator("dialog input[type=checkbox]");
    await letters.uncheck();
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.keyboard.press("c");
    await page.focus(`[data-thread="${task.id}"] a.title`);
    await page.keyboard.press("Shift+X");
    await page.keyboard.press("Control+k");
    await page.waitForSelector("dialog[data-dialog=palette]");
    assert.ok(!(await page.locator(".chosen").isVisible()), "nor has one with Shift chosen anything");
    assert.equal(await page.locator("dialog").count(), 1, "the letter has opened nothing");
    await page.keyboard.press("Escape");
    await page.reload();
    await page.live("live");
    await page.click(".top button:has-text('?')");
    assert.equal(await page.locator("dialog input[type=checkbox]").isChecked(), false);
    await page.locator("dialog input[type=checkbox]").check();
  },

  "the palette goes to places, tasks and actions": async ({ world, open }) => {
    const task = await world.task(await world.channel("palette"), "Zanzibar is far");
    const page = await open(world.admin);
    await page.at("board");
    const pick = async (text) => {
      await page.keyboard.press("Control+k");
      await page.fill("dialog[data-dialog=palette] input", text);
      await page.keyboard.press("Enter");
    };
    await pick("zanzibar");
    await page.waitForSelector(`[data-screen=task][data-thread="${task.id}"] [data-why]`);
    await pick("claim");
    await page.says("[data-panel=claim]", /Held by/);
    await pick("go to board");
    await page.waitForSelector("[data-screen=board]");
  },

  "the first stop leads to the content, and every stop of a task is seen": async ({ world, open }) => {
    const task = await world.task(await world.channel("stops"), "Has stops");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
    await isSeen(page);
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    await tabTo(page, "[data-of=claim_thread]");
    await tabTo(page, "textarea[name=body]");
  },

  "Space presses the button that has the focus, and nothing else": async ({ world, open }) => {
    const { task, gate } = await asking(world, await world.channel("space"), "Is pressed by Space");
    const page = await open(world.admin);
    await page.at("board?channel=space");
    await page.inLane(task.id, "needs-you");
    await page.focus(`[data-thread="${task.id}"] .menu`);
    await page.keyboard.press("Space");
    await page.waitForSelector("dialog[data-dialog=menu]");
    await page.keyboard.press("Escape");
    await page.at("");
    await page.focus(accept(gate));
    await page.keyboard.press("Space");
    await page.says(accept(gate), /press again/);
    assert.equal(await page.locator("dialog").count(), 0);
  },

  "a accepts what a task asks, and what stands behind a link; the first press arms": async ({ world, open }) => {
    const { admin, agent } = world;
    const { task, gate } = await asking(world, await world.channel("accepts"), "Asks twice");
    const second = await agent.call("request_approval", { thread_id: task.id, question: "And this?" });
    const stateOf = async ({ id }) => (await admin.call("get_approval_gate", { gate_id: id })).state;
    const page = await open(admin);
    await page.at(`t/${task.id}`);
    await page.waitForSelector(accept(gate));
    await page.waitForSelector(accept(second));
    await page.keyboard.press("a");
    const at = await page.evaluate(() => document.activeElement.closest("[data-gate]")?.dataset.gate);
    const [first, other] = at === gate.id ? [gate, second] : [second, gate];
    assert.equal(at, first.id, "of several it leads to the first");
    assert.ok(!(await page.has(".armed")));
    await page.keyboard.press("a");
    await page.says(accept(first), /press again/);
    await page.keyboard.press("a");
    await page.waitForSelector(`[data-gate="${first.id}"][data-state=accepted]`);
    assert.equal(await stateOf(other), "pending");
    const asked = { gate_id: other.id, decision: "accept" };
    const { link } = await agent.refused("approval_decide", asked, "needs-person");
    await page.at(link.url.split("/ui/")[1]);
    await page.waitForSelector(accept(other));
    await page.keyboard.press("a");
    await page.says(accept(other), /press again/);
    await page.keyboard.press("a");
    await page.waitForSelector(`[data-gate="${other.id}"][data-state=accepted]`);
    assert.equal(await stateOf(other), "accepted");
  },

  "a channel, messages and conflicts go by the same keys, and Escape leads from the field to the row": async ({
    world,
    open,
  }) => {
    const { admin, agent } = world;
    const kim = await world.person("kim");
    const dm = await admin.call("open_dm", { member_ids: [kim.id] });
    const channel = await world.channel("same keys");
    const footprint = { repo: "a/b", mode: "exclusive", items: [{ kind: "path", value: "src" }] };
    const task = await world.task(channel, "Is here", { priority: 9 });
    const held = await world.task(channel, "Is held", { footprint });
    await world.claimed(agent, held.id);
    const page = await open(admin);
    const isIn = (selector) =>
      page.waitForFunction((selector) => document.activeElement.closest(selector), selector);
    const peeks = async () => {
      await page.keyboard.press("Space");
      await page.waitForSelector("dialog[data-dialog=peek]");
      await page.keyboard.press("Escape");
      await page.waitForSelector("dialog", { state: "detached" });
    };
    const goesToField = async (row) => {
      await page.keyboard.press("r");
      await isIn("textarea[name=body]");
      await page.keyboard.press("Escape");
      await isIn(row);
    };
    await page.at(`c/${channel}`);
    const row = `.list-pane [data-thread="${task.id}"]`;
    await page.waitForSelector(row);
    await page.keyboard.press("j");
    for (let step = 0; step < 2 && (await focused(page)) !== task.id; step += 1) await page.keyboard.press("ArrowDown");
    await isIn(row);
    await peeks();
    await isIn(row);
    await goesToField(row);
    await goesToField(row);
    await page.keyboard.press("i");
    await page.says(row, /admin/);
    await page.keyboard.press("/");
    await isIn("select[name=show]");
    await page.at("dms");
    await page.waitForSelector(`[data-channel="${dm.id}"]`);
    await page.keyboard.press("j");
    await goesToField(`[data-channel="${dm.id}"]`);
    await goesToField(`[data-channel="${dm.id}"]`);
    await page.at("conflicts");
    await page.waitForSelector(`[data-thread="${held.id}"]`);
    await page.keyboard.press("j");
    await peeks();
  },

  "from a card of the board r leads to the field, and a to what is asked": async ({ world, open }) => {
    const { task, gate } = await asking(world, await world.channel("from a card"), "Asks from a card");
    const free = await world.task(await world.channel("asks nothing"), "Asks nothing");
    const page = await open(world.admin);
    const press = async ({ id }, key) => {
      await page.at("board");
      await page.waitForSelector(`[data-thread="${id}"] a.title`);
      await page.focus(`[data-thread="${id}"] a.title`);
      await page.keyboard.press(key);
    };
    await press(task, "r");
    await page.waitForSelector(`[data-screen=task][data-thread="${task.id}"]`);
    await page.waitForFunction(() => document.activeElement.name === "body");
    await press(task, "a");
    await page.waitForFunction((id) => document.activeElement.closest(`[data-gate="${id}"]`), gate.id);
    assert.ok(!(await page.has(".armed")), "it has pressed nothing");
    await press(free, "a");
    await page.says(".strip [data-told]", /Accept: .*not offered/);
  },

  "Escape leads back to the row that one left, in every list": async ({ world, open }) => {
    const channel = await world.channel("back");
    for (const name of ["One", "Two", "Three"]) await asking(world, channel, `${name} to come back to`);
    const page = await open(world.admin);
    for (const [path, link] of Object.entries(LISTS)) {
      await page.at(path);
      await page.waitForSelector(`main :is(.held-rows, .rows) ${link}`);
      await page.keyboard.press("j");
      const leads = (link) => document.activeElement.closest(".held-rows > *, .slot")?.querySelector(link) !== null;
      // Not the first, and not one that leads nowhere.
      for (let step = 0; step < 30 && (step === 0 || !(await page.evaluate(leads, link))); step += 1)
        await page.keyboard.press("j");
      const row = await rowOf(page);
      assert.ok(row, path);
      const from = page.url();
      await page.evaluate((link) => {
        const at = document.activeElement.closest(".held-rows > *, .slot");
        at.querySelector(link).focus();
      }, link);
      await page.keyboard.press("Enter");
      await page.waitForFunction((from) => location.href !== from, from);
      await page.waitForSelector("main :is([data-screen=task], [data-screen=member])");
      await page.settled();
      await page.keyboard.press("Escape");
      await page.waitForURL(from);
      await page.waitForFunction(() => document.activeElement !== document.body);
      await page
        .waitForFunction(() => document.activeElement.closest(".held-rows, .rows"), null, { timeout: 5_000 })
        .catch(() => assert.fail(`${path}: the focus is not back`));
      assert.equal(await rowOf(page), row, path);
    }
  },

  "where the row is gone meanwhile, the next one has the focus": async ({ world, open }) => {
    const channel = await world.channel("gone");
    const gates = [];
    for (const name of ["One", "Two"]) gates.push((await asking(world, channel, `${name} is decided`)).gate);
    const page = await open(world.admin);
    await page.at("");
    for (const gate of gates) await page.waitForSelector(accept(gate));
    await page.focus(`.held-rows > :has([data-gate="${gates[0].id}"]) a.title`);
    const [row, next] = await page.evaluate(() => {
      const at = document.activeElement.closest(".held-rows > [data-key]");
      return [at.dataset.key, at.nextElementSibling.dataset.key];
    });
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-screen=task]");
    await page.settled();
    await world.admin.call("approval_decide", { gate_id: gates[0].id, decision: "decline" });
    await page.reached(world.admin.lsn);
    await page.keyboard.press("Escape");
    await page.waitForSelector("[data-screen=now]");
    await page.waitForFunction(() => document.activeElement.closest(".held-rows"));
    assert.equal(await rowOf(page), next);
    assert.ok(!(await page.has(`[data-key="${row}"]`)));
  },

  "tasks of a channel are chosen and acted on as those of the board": async ({ world, open }) => {
    const channel = await world.channel("chosen there");
    const tasks = [];
    for (let at = 0; at < 4; at += 1) tasks.unshift(await world.task(channel, `Is chosen there ${at}`));
    const page = await open(world.admin);
    await page.at(`c/${channel}`);
    const card = ({ id }) => `.list-pane [data-thread="${id}"]`;
    await page.waitForSelector(card(tasks[3]));
    for (const key of ["j", "x", "j", "j", "Shift+X"]) await page.keyboard.press(key);
    await page.says(".chosen", /3 tasks are chosen/);
    await page.says(`${card(tasks[1])} .chips`, /^Chosen/);
    assert.ok(!(await page.has(`${card(tasks[3])}[data-chosen]`)));
    await page.keyboard.press("k");
    await page.keyboard.press("x");
    await page.says(".chosen", /2 tasks are chosen/);
    await page.keyboard.press("i");
    await page.waitForSelector("dialog[data-dialog=many] [data-of=claim_thread]:focus");
    await page.keyboard.press("Enter");
    await page.waitForSelector("dialog", { state: "detached" });
    assert.ok(!(await page.locator(".chosen").isVisible()), "what is done is not chosen any more");
    const holder = async ({ id }) => (await world.admin.call("get_thread", { thread_id: id })).assignee_id;
    const held = [];
    for (const task of tasks) held.push((await holder(task)) === world.admin.id);
    assert.deepEqual(held, [true, false, true, false]);
    // What is not listed any more is not chosen.
    await page.focus(`${card(tasks[1])} a.title`);
    await page.keyboard.press("x");
    await page.says(".chosen", /1 task is chosen/);
    await page.selectOption("[name=show]", "done");
    await page.waitForSelector(".chosen", { state: "hidden" });
  },

  "what is chosen is told in words, and is done by keys": async ({ world, open }) => {
    const channel = await world.channel("chosen");
    const tasks = [];
    for (let at = 0; at < 3; at += 1) tasks.push(await world.task(channel, `Is chosen ${at}`, { priority: 9 - at }));
    const page = await open(world.admin);
    await page.at("board?channel=chosen");
    await page.inLane(tasks[2].id, "ready");
    for (const key of ["j", "x", "j", "Shift+X"]) await page.keyboard.press(key);
    await page.says(".chosen", /2 tasks are chosen/);
    for (const { id } of tasks.slice(0, 2)) {
      await page.says(`[data-thread="${id}"] .chips`, /^Chosen/);
      assert.match(await page.getAttribute(`[data-thread="${id}"] a.title`, "aria-label"), /, Chosen, /);
    }
    assert.doesNotMatch(await page.getAttribute(`[data-thread="${tasks[2].id}"] a.title`, "aria-label"), /Chosen/);
    await page.emulateMedia({ forcedColors: "active" });
    const ground = (id) =>
      page.locator(`[data-thread="${id}"]`).evaluate((node) => getComputedStyle(node).backgroundColor);
    assert.notEqual(await ground(tasks[1].id), await ground(tasks[2].id), "it is seen whatever the colours are");
    await page.emulateMedia({ forcedColors: "none" });
    await page.keyboard.press("Control+k");
    await page.says("dialog[data-dialog=palette] [aria-selected=true]", /Actions[^]*2 tasks are chosen/);
    await page.keyboard.press("Enter");
    await page.waitForSelector("dialog[data-dialog=many]");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.inLane(tasks[0].id, "ready");
    for (const key of ["Escape", "j", "x", "j", "x", "i"]) await page.keyboard.press(key);
    await page.waitForSelector("dialog[data-dialog=many] [data-of=claim_thread]:focus");
    await page.keyboard.press("Enter");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.keyboard.press("Escape");
    await page.inLane(tasks[0].id, "running");
    await page.inLane(tasks[1].id, "running");
    await page.inLane(tasks[2].id, "ready");
  },

  "what a key has done has a receipt, and why it does nothing is said": async ({ world, open }) => {
    const task = await world.task(await world.channel("receipt"), "Is claimed by a key");
    const page = await open(world.admin);
    await page.at("board?channel=receipt");
    await page.inLane(task.id, "ready");
    await page.keyboard.press("j");
    await page.keyboard.press("i");
    await page.says(".receipts [data-event]", /Is claimed by a key[^]*Claim: done[^]*event \d+/);
    const { items } = await world.admin.call("list_thread_events", { thread_id: task.id, limit: 500 });
    const { lsn } = items.find(({ kind }) => kind === "ThreadAssignmentChanged");
    await page.waitForSelector(`.receipts [data-event="${lsn}"] a[href$="log#${lsn}"]`);
    await page.keyboard.press("Escape");
    await page.inLane(task.id, "running");
    await page.focus(`[data-thread="${task.id}"] a.title`);
    await page.keyboard.press("i");
    await page.says(".strip [data-told]", /Claim: .*not offered/);
    world.proxy.down(true);
    await page.live("offline");
    await page.focus(`[data-thread="${task.id}"] a.title`);
    await page.keyboard.press("i");
    await page.says(".strip [data-told]", /Claim: Not while offline/);
    world.proxy.down(false);
  },
};
