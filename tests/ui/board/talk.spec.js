// Channels, the inbox and direct messages: what is said, who is reached, and what one has read.

import assert from "node:assert/strict";

export const tests = {
  "a channel shows its tasks, what is said in one, and what belongs to it": async ({ world, open }) => {
    const { admin, agent } = world;
    const channel = await world.channel("a channel");
    await admin.call("set_channel_boot", { channel_id: channel, text: "Read **this** first." });
    const task = await world.task(channel, "Is talked about here");
    const said = await agent.call("post_message", { thread_id: task.id, body: "A pinned word" });
    await admin.call("pin_message", { message_id: said.id });
    const page = await open(admin);
    await page.at(`c/${channel}`);
    await page.says("h1", /a channel/);
    await page.waitForSelector(`[data-thread="${task.id}"]`);
    await page.says("main", /Read this first/);
    await page.says("main", /A pinned word/);
    await page.locator(`[data-thread="${task.id}"] a.title`).click();
    await page.waitForURL(new RegExp(`t=${task.id}`));
    await page.fill("textarea[name=body]", "Said in the channel");
    await page.keyboard.press("Control+Enter");
    await page.says(".timeline", /Said in the channel/);
    await agent.call("set_glossary_term", { term: "svc", definition: "A service" });
    await page.says("main", /A service/);
    await admin.call("update_channel", { channel_id: channel, topic: "Another topic" });
    await page.says("main", /Another topic/);
  },

  "a channel says that it has more tasks than are read": async ({ world, open }) => {
    const channel = await world.channel("has many");
    const task = await world.task(channel, "One of many");
    const page = await open(world.admin);
    const list = `[data-thread="${task.id}"]`;
    await page.at(`c/${channel}`);
    await page.waitForSelector(list);
    assert.doesNotMatch(await page.innerText(".list-pane"), /Older tasks/);
    await page.route(new RegExp(`${channel}.*newest_first`), async (route) => {
      const url = route.request().url().replace(/&?cursor=more/, "");
      const answer = await route.fetch({ url });
      await route.fulfill({ response: answer, json: { ...(await answer.json()), next_cursor: "more" } });
    });
    await page.reload();
    await page.waitForSelector(list);
    await page.says(".list-pane", /Older tasks may be missing here/);
  },

  "what is new where one follows is counted, until one has read it": async ({ world, open }) => {
    const { admin, agent } = world;
    const channel = await world.channel("followed");
    const task = await world.task(channel, "Is followed");
    for (const target_id of [channel, task.id]) await admin.call("follow", { target_id });
    const page = await open(admin);
    await page.at(`c/${channel}`);
    const card = `.list-pane [data-thread="${task.id}"]`;
    const say = (body) => agent.call("post_message", { thread_id: task.id, body });
    await page.waitForSelector(card);
    await say("The first news");
    await page.says(card, /1 unread/);
    await page.says("header", /1 unread/);
    await say("The second news");
    await page.says(card, /2 unread/);
    await page.click(`[data-of=mark_channel_read]`);
    await page.waitForFunction(() => !/unread/.test(document.querySelector("[data-screen=channel] header").innerText));
    await page.locator(`${card} a.title`).click();
    await page.says(".timeline", /The second news/);
    await page.waitForFunction((card) => !/unread/.test(document.querySelector(card).innerText), card);
    const { items } = await admin.call("list_follows");
    assert.deepEqual(
      items.map(({ unread }) => unread),
      [0, 0],
    );
  },

  "following is seen before it is answered, and taken back if it is refused": async ({ world, open }) => {
    const channel = await world.channel("to be followed");
    const page = await open(world.agent);
    await page.at(`c/${channel}`);
    const [follow, unfollow] = ["follow_channel", "unfollow_channel"].map((id) => `[data-of=${id}]`);
    /** Holds the next answer back. @param {(route: any) => unknown} then */
    const held = async (then) => {
      let go;
      const gone = new Promise((resume) => (go = resume));
      await page.route(new RegExp(`follows/${channel}`), (route) => gone.then(() => then(route)), { times: 1 });
      return go;
    };
    const followed = async () => (await world.agent.call("list_follows")).items.map(({ target_id }) => target_id);
    for (const [press, seen, isFollowed] of [
      [follow, unfollow, true],
      [unfollow, follow, false],
    ]) {
      const go = await held((route) => route.continue());
      const answered = page.waitForResponse(new RegExp(`follows/${channel}`));
      await page.click(press);
      await page.waitForSelector(seen);
      assert.notEqual((await followed()).includes(channel), isFollowed, "nobody has been asked yet");
      go();
      await answered;
      await page.waitForResponse(/me\/follows(?:\?.*)?$/);
      await page.waitForSelector(seen);
      assert.equal((await followed()).includes(channel), isFollowed);
    }
    const body = { type: "/problems/missing-capability", required_capability: "things:do", detail: "it is needed" };
    const refused = { status: 403, contentType: "application/problem+json", body: JSON.stringify(body) };
    const go = await held((route) => route.fulfill(refused));
    await page.click(follow);
    await page.waitForSelector(unfollow);
    go();
    await page.says("main [data-problem]", /things:do/);
    await page.waitForSelector(follow);
  },

  "what is read, answered or gone from the inbox moves nothing under a pointer that rests": async ({ world, open }) => {
    const { admin, agent } = world;
    await admin.call("mark_inbox_read", { up_to_lsn: admin.lsn });
    const channel = await world.channel("still inbox");
    for (const said of ["comes last", "is below", "is read elsewhere"]) {
      const task = await world.task(channel, `Has what ${said}`);
      await agent.call("post_message", { thread_id: task.id, body: `@admin this ${said}` });
    }
    const asking = await world.task(channel, "Is waited for");
    await world.claimed(agent, asking.id);
    const gate = await agent.call("request_approval", { thread_id: asking.id, question: "May I go on?" });
    const page = await open(admin);
    await page.at("inbox");
    await page.waitForSelector(`[data-gate="${gate.id}"] [data-of="approval_decide accept"]`);
    const other = await page.context().newPage();
    await other.goto(page.url());
    /** Presses something in the other tab, and comes back. */
    const press = async (selector) => {
      await other.locator(selector).first().click();
      await page.bringToFront();
    };
    await page.bringToFront();
    const row = '[data-inbox]:has-text("is below")';
    const changes = {
      "one is read": async () => {
        await press('[data-inbox]:has-text("read elsewhere") [data-action=mark_inbox_read]');
        await page.says("[data-inbox][data-read]", /read elsewhere/);
      },
      "one is answered": async () => {
        await admin.call("approval_decide", { gate_id: gate.id, decision: "accept" });
        await page.waitForSelector(`[data-gate="${gate.id}"]:not([data-state=pending])`);
      },
      "none is left": async () => {
        await press(".screen > .row [data-action=mark_inbox_read]");
        await page.waitForFunction(() => !document.querySelector("[data-inbox]:not([data-read])"));
      },
    };
    for (const [name, change] of Object.entries(changes)) assert.equal(await page.rests(row, change), 0, name);
    await page.mouse.move(0, 0);
    await page.waitForSelector("[data-inbox]", { state: "detached" });
    await page.says("[data-screen=inbox] p[role=status]", /\S/);
  },

  "a button that is gone once it was pressed takes nothing along": async ({ world, open }) => {
    const { admin, agent } = world;
    await admin.call("mark_inbox_read", { up_to_lsn: admin.lsn });
    const task = await world.task(await world.channel("pressed inbox"), "Has words to read");
    for (let at = 0; at < 8; at += 1) await agent.call("post_message", { thread_id: task.id, body: `@admin word ${at}` });
    const page = await open(admin);
    await page.at("inbox");
    const row = page.locator('[data-inbox]:has-text("word 3")');
    const press = row.locator("[data-action=mark_inbox_read]");
    await press.hover();
    const before = await row.boundingBox();
    await press.click();
    await press.waitFor({ state: "hidden" });
    // What stands beside it in its line may be a little lower now.
    const moved = (await row.boundingBox()).y - before.y;
    assert.ok(Math.abs(moved) < 10, `moved by ${moved}`);
  },

  "what arrives in a list that is held says so wherever one is in it": async ({ world, open }) => {
    const { admin, agent } = world;
    const task = await world.task(await world.channel("long inbox"), "Is talked about at length");
    for (let at = 0; at < 20; at += 1) await agent.call("post_message", { thread_id: task.id, body: `@admin ${at}` });
    const page = await open(admin);
    await page.at("inbox");
    const last = page.locator("[data-inbox]").last();
    await last.scrollIntoViewIfNeeded();
    await last.hover();
    await agent.call("post_message", { thread_id: task.id, body: "@admin one more" });
    await page.says(".news", /1 new/);
    const isSeen = await page.locator(".news:not([hidden])").evaluate((node) => {
      const { x, y, width, height } = node.getBoundingClientRect();
      return document.elementFromPoint(x + width / 2, y + height / 2) === node;
    });
    assert.ok(isSeen);
    await page.click(".news");
    await page.says("[data-inbox]:first-child", /one more/);
  },

  "the inbox has who spoke to me, and marking reads marks": async ({ world, open }) => {
    const { admin, agent } = world;
    const task = await world.task(await world.channel("inbox"), "Speaks to people");
    await agent.call("post_message", { thread_id: task.id, body: "@admin the first word" });
    const page = await open(admin);
    await page.at("inbox");
    await page.says("[data-inbox]", /the first word/);
    await agent.call("post_message", { thread_id: task.id, body: "@admin the second word" });
    await page.says("[data-screen=inbox]", /the second word/);
    const count = await page.locator("[data-inbox]:not([data-read])").count();
    const isWrite = (response) => response.request().method() === "POST";
    const first = page.waitForResponse(isWrite);
    await page.locator("[data-inbox]", { hasText: "the first word" }).locator("[data-action=mark_inbox_read]").click();
    await page.waitForFunction(
      (n) => document.querySelectorAll("[data-inbox]:not([data-read])").length === n,
      count - 1,
    );
    await first;
    const answered = page.waitForResponse(isWrite);
    await page.getByRole("button", { name: "Mark all read" }).click();
    await answered;
    await page.waitForFunction(() => document.querySelectorAll("[data-inbox]:not([data-read])").length === 0);
    const { items } = await admin.call("list_inbox", { unread: true });
    assert.ok(items.every(({ read }) => read));
  },

  "one tab marks, the other knows": async ({ world, open }) => {
    const task = await world.task(await world.channel("two tabs"), "Is read in one");
    await world.agent.call("post_message", { thread_id: task.id, body: "@admin in both tabs" });
    const first = await open(world.admin);
    await first.at("inbox");
    const second = await first.context().newPage();
    await second.goto(`${world.url}inbox`);
    const row = (page) => page.locator("[data-inbox]", { hasText: "in both tabs" });
    await row(second).waitFor();
    await row(first).locator("[data-action=mark_inbox_read]").click();
    await second.waitForFunction(
      () =>
        ![...document.querySelectorAll("[data-inbox]:not([data-read])")].some(({ innerText }) =>
          innerText.includes("in both tabs"),
        ),
    );
  },

  "a direct message is between those who are in it": async ({ world, open }) => {
    const { admin, agent } = world;
    const kim = await world.person("kim");
    const dm = await admin.call("open_dm", { member_ids: [kim.id] });
    const [mine, hers, theirs] = [await open(admin), await open(kim), await open(agent)];
    await mine.at(`dms?c=${dm.id}`);
    await hers.at("dms");
    await theirs.at("dms");
    await mine.fill("textarea[name=body]", "Between us");
    await mine.keyboard.press("Control+Enter");
    await hers.says(`[data-channel="${dm.id}"]`, /Between us/);
    await hers.locator(`[data-channel="${dm.id}"] a.title`).click();
    await hers.says(".timeline", /Between us/);
    await hers.fill("textarea[name=body]", "And back");
    await hers.keyboard.press("Control+Enter");
    await mine.says(".timeline", /And back/);
    await theirs.reached(agent.lsn);
    assert.ok(!(await theirs.content()).includes("Between us"));
    const more = await world.newAgent("more");
    const group = await admin.call("open_dm", { member_ids: [kim.id, more.id] });
    await admin.call("post_message", { thread_id: group.thread_id, body: "Before you came" });
    await admin.call("add_dm_participant", { channel_id: group.id, member_id: agent.id });
    await theirs.says(`[data-channel="${group.id}"]`, /Before you came/);
  },
};
