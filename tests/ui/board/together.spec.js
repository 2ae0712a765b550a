// Two people and an agent at one task: what one does, the others see without asking.

import assert from "node:assert/strict";

const claim = "[data-panel=claim]";

export const tests = {
  "a task goes from one person by an agent to another, who closes it": async ({ world, open }) => {
    const { admin, agent } = world;
    const eva = await world.person("eva");
    const channel = await world.channel("together");
    const [hers, mine] = [await open(eva), await open(admin)];
    await mine.at("board?channel=together");
    await hers.at("board?channel=together");

    await hers.keyboard.press("c");
    await hers.selectOption("dialog [name=channel_id]", channel);
    await hers.fill("dialog [name=title]", "Is done together");
    await hers.fill("dialog [name=body]", "Please, @worker.");
    await hers.click("dialog form [type=submit]");
    await hers.waitForURL(/\/t\//);
    const id = /\/t\/([^#?]+)/.exec(hers.url())[1];
    await mine.inLane(id, "ready");

    const lease = await world.claimed(agent, id);
    await mine.inLane(id, "running");
    await hers.says(claim, /Held by[^]*worker[^]*acknowledged/);
    await agent.call("post_message", { thread_id: id, body: "I am at it, @admin: *which* branch?" });
    await hers.says(".timeline", /which branch/);

    await mine.locator(`[data-thread="${id}"] a.title`).click();
    await mine.says(".timeline", /which branch/);
    await mine.keyboard.press("r");
    await mine.keyboard.type("The main one.");
    await mine.keyboard.press("Control+Enter");
    await hers.says(".timeline", /The main one/);

    const gate = await agent.call("request_approval", { thread_id: id, question: "May I push?", needs_person: true });
    // Where a pointer rests on the task, it waits until one asks for it or goes elsewhere.
    await hers.mouse.move(0, 0);
    await mine.locator(".task-main .news", { hasText: "1 new" }).click();
    await mine.waitForSelector(`[data-gate="${gate.id}"]`);
    const accept = mine.locator(`[data-gate="${gate.id}"] [data-of="approval_decide accept"]`).first();
    await accept.click();
    await accept.click();
    await hers.waitForSelector(`[data-gate="${gate.id}"][data-state=accepted]`);

    await agent.call("set_thread_result", {
      thread_id: id,
      claim_lease_id: lease.claim_lease_id,
      result: { branch: "main" },
      action: "start_review",
    });
    await hers.says("[data-panel=result]", /main/);
    await hers.click(`${claim} [data-of="transition_thread close"]`);
    await hers.click(`${claim} [data-of="transition_thread close"]`);
    for (const page of [hers, mine]) await page.waitForSelector(`${claim} [data-why=done]`);
    assert.equal((await admin.call("get_thread", { thread_id: id })).state, "closed");
  },

  "of two who claim at once one has it, and the other is told who": async ({ world, open }) => {
    const tom = await world.person("tom");
    const task = await world.task(await world.channel("at once"), "Is wanted by both");
    const pages = [await open(tom), await open(world.admin)];
    for (const page of pages) await page.at(`t/${task.id}`);
    await Promise.all(pages.map((page) => page.click(`${claim} [data-of=claim_thread]`)));
    for (const page of pages) await page.says(claim, /Held by/);
    const { assignee_id } = await world.admin.call("get_thread", { thread_id: task.id });
    const loser = pages[assignee_id === tom.id ? 1 : 0];
    await loser.says(`${claim} [data-problem=not-claimable]`, assignee_id === tom.id ? /held by tom/ : /held by admin/);
  },

  "of two who decide an approval the second is told how it was decided": async ({ world, open }) => {
    const task = await world.task(await world.channel("decided"), "Is decided by two");
    await world.claimed(world.agent, task.id);
    const gate = await world.agent.call("request_approval", { thread_id: task.id, question: "May I?" });
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    const box = `[data-gate="${gate.id}"]`;
    await page.waitForSelector(box);
    const accept = page.locator(`${box} [data-of="approval_decide accept"]`).first();
    await accept.click();
    await page.waitForLoadState("networkidle");
    world.proxy.freeze();
    await world.admin.call("approval_decide", { gate_id: gate.id, decision: "decline" });
    await accept.click();
    await page.says(`${box} [data-problem=wrong-state]`, /declined/);
    await page.waitForSelector(`${box}[data-state=declined]`);
    assert.equal((await world.admin.call("get_approval_gate", { gate_id: gate.id })).state, "declined");
  },

  "reactions and edits of one are on the page of the other": async ({ world, open }) => {
    const una = await world.person("una");
    const task = await world.task(await world.channel("edits"), "Is talked about");
    const said = await una.call("post_message", { thread_id: task.id, body: "The frist word" });
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.says(`[data-message="${said.id}"]`, /frist/);
    await una.call("edit_message", { message_id: said.id, body: "The first word" });
    await page.says(`[data-message="${said.id}"]`, /first word/);
    await una.call("add_reaction", { message_id: said.id, emoji: "🎉" });
    await page.says(`[data-message="${said.id}"]`, /🎉/);
    await una.call("delete_message", { message_id: said.id });
    await page.says(`[data-message="${said.id}"]`, /Withdrawn/);
    assert.ok(!(await page.content()).includes("first word"));
  },

  "what another has said is withdrawn by who may, and others are told what it takes": async ({ world, open }) => {
    const una = await world.person("una");
    const task = await world.task(await world.channel("withdrawn"), "Is regretted");
    const said = await una.call("post_message", { thread_id: task.id, body: "Said by una" });
    const answer = await world.admin.call("post_message", { thread_id: task.id, body: "Said by the administrator" });
    const withdraw = "dialog [data-action=delete_message]";
    const inMenu = async (page, { id }) => {
      await page.locator(`[data-message="${id}"] .message-head button`, { hasText: "⋯" }).click();
      await page.waitForSelector(withdraw);
      const why = await page.getAttribute(withdraw, "title");
      assert.equal(await page.getAttribute(withdraw, "aria-disabled"), why && "true");
      await page.keyboard.press("Escape");
      await page.waitForSelector("dialog", { state: "detached" });
      return why;
    };
    const page = await open(una);
    await page.at(`t/${task.id}`);
    assert.match(await inMenu(page, answer), /channel:admin/);
    assert.equal(await inMenu(page, said), null);
    const other = await open(world.admin);
    await other.at(`t/${task.id}`);
    assert.equal(await inMenu(other, said), null);
  },
};
