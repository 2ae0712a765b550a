// People and what they hold: presence and work apart, conflicts, memory of which two write, and freezing.

import assert from "node:assert/strict";

const footprint = (value) => ({ repo: "acme/core", mode: "exclusive", items: [{ kind: "path", value }] });

export const tests = {
  "presence and the last event stand apart: a hung agent is online, too": async ({ world, open }) => {
    const hung = await world.newAgent("hung");
    const task = await world.task(await world.channel("presence"), "Is held by a hung agent");
    await world.claimed(hung, task.id);
    await hung.call("send_heartbeat", { status: "active", note: "All is well", thread_id: task.id });
    const page = await open(world.admin);
    await page.at("people");
    await page.says(`[data-member="${hung.id}"]`, /Online[^]*Last event \d+ seconds? ago[^]*1 claim/);
    await page.at(`m/${hung.id}`);
    await page.says("main", /says only that its program runs/);
    await page.says("main", /Is held by a hung agent/);
    await page.says("main", /All is well/);
  },

  "into a channel that one could not see: its tasks are there, and what was asked in them": async ({ world, open }) => {
    const { admin } = world;
    const person = await world.person("newcomer");
    const closed = async (name) => {
      const { id } = await admin.call("create_channel", { name, private: true });
      return { id, task: await world.task(id, `Was hidden in ${name}`) };
    };
    const [joined, published] = [await closed("joined"), await closed("published")];
    await admin.call("request_approval", { thread_id: joined.task.id, question: "Was this asked before?" });
    const [board, now, task] = [await open(person), await open(person), await open(person)];
    await board.at("board");
    await now.at("");
    await task.at(`t/${joined.task.id}`);
    await task.says("main", /no such task/);
    await admin.call("add_channel_member", { channel_id: joined.id, member_id: person.id });
    await board.waitForSelector(`[data-thread="${joined.task.id}"]`, { state: "attached" });
    await now.says("main", /Was this asked before/);
    await task.says("h1", /Was hidden in joined/);
    await admin.call("update_channel", { channel_id: published.id, private: false });
    await board.waitForSelector(`[data-thread="${published.task.id}"]`, { state: "attached" });
  },

  "out of a channel that one could see: nothing of it stays, whatever was open": async ({ world, open }) => {
    const { admin } = world;
    const person = await world.person("leaver");
    const { id } = await admin.call("create_channel", { name: "inner", private: true });
    await admin.call("add_channel_member", { channel_id: id, member_id: person.id });
    const task = await world.task(id, "Seen until then");
    await admin.call("post_message", { thread_id: task.id, body: "Words of the inner circle" });
    const [board, opened, log] = [await open(person), await open(person), await open(person)];
    await board.at("board");
    await opened.at(`t/${task.id}`);
    await log.at("log");
    await board.waitForSelector(`[data-thread="${task.id}"]`, { state: "attached" });
    await opened.says("main", /Words of the inner circle/);
    await log.says("main", /Words of the inner circle/);
    await admin.call("remove_channel_member", { channel_id: id, member_id: person.id });
    // The page looks each minute, and when somebody comes back to it.
    for (const page of [board, opened, log]) await page.evaluate(() => dispatchEvent(new Event("focus")));
    await board.waitForSelector(`[data-thread="${task.id}"]`, { state: "detached" });
    await opened.says("main", /no such task/);
    for (const page of [board, opened, log])
      await page.waitForFunction(() => !/inner circle|Seen until/.test(document.body.innerText));
  },

  "who is frozen is told everywhere, with who did it and why": async ({ world, open }) => {
    const frozen = await world.newAgent("hasty");
    const page = await open(world.admin);
    await page.at(`m/${frozen.id}`);
    await page.click("[data-of=freeze_member]");
    await page.fill("dialog [name=reason]", "It deletes what it should read.");
    await page.click("dialog form [type=submit]");
    await page.says("main", /Frozen by[^]*deletes what it should read/);
    await frozen.refused("create_channel", { name: "nothing" }, "member-frozen");
    await page.at("people");
    await page.says(`[data-member="${frozen.id}"]`, /Frozen/);
    await world.admin.call("unfreeze_member", { member_id: frozen.id });
    await page.waitForFunction(
      (id) => !document.querySelector(`[data-member="${id}"]`).innerText.includes("Frozen"),
      frozen.id,
    );
  },

  "conflicts say who holds what and who waits behind it": async ({ world, open }) => {
    const { admin, agent } = world;
    const channel = await world.channel("conflicts");
    const held = await world.task(channel, "Holds the queue", { footprint: footprint("src/queue") });
    await world.task(channel, "Waits for the queue", { footprint: footprint("src/queue/a.rs") });
    const page = await open(admin);
    await page.at("conflicts");
    const claim = await world.claimed(agent, held.id);
    await page.says("main", /Holds the queue[^]*worker[^]*1 task waits behind it[^]*Waits for the queue/);
    await admin.call("pause_repo", { repo: "acme/mail", reason: "It is being moved." });
    await page.says("main", /acme\/mail[^]*being moved/);
    await admin.call("set_slot_capacity", { slot: "staging", capacity: 2 });
    await page.says("main", /staging[^]*0 of 2 in use/);
    await agent.call("release_claim", { thread_id: held.id, claim_lease_id: claim.claim_lease_id });
    await page.waitForFunction(
      (title) => !document.querySelector("main").innerText.includes(title),
      "Waits for the queue",
    );
  },

  "of two who write a memory block the second sees both texts": async ({ world, open }) => {
    const block = await world.admin.call("create_memory_block", { label: "Rules", value: "First line\nSecond line" });
    const page = await open(world.admin);
    await page.at(`memory?block=${block.id}`);
    await page.fill("textarea[name=value]", "First line\nMy second line");
    await world.agent.call("set_memory_block", {
      block_id: block.id,
      value: "Their first line\nSecond line",
      expected_version: block.version,
    });
    await page.says("main", /Theirs, version 2[^]*Their first line/);
    assert.equal(await page.inputValue("textarea[name=value]"), "First line\nMy second line");
    await page.getByRole("button", { name: /Save mine over version 2/ }).click();
    await page.says("main", /version 3/);
    const now = await world.admin.call("get_memory_block", { block_id: block.id });
    assert.deepEqual([now.value, now.version], ["First line\nMy second line", 3]);
    await page.click("details.versions summary");
    for (const version of [3, 2, 1]) await page.waitForSelector(`[data-version="${version}"]`);
  },
};
