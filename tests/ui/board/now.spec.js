// What needs me: ranked, each with why, since when, and one thing to do about it.

import assert from "node:assert/strict";

/** A claim that nobody acknowledges is told soon. */
export const world = { variables: { SVC_CLAIM_ACK_TIMEOUT_SECS: "1", SVC_CLAIM_REAP_TICK_SECS: "1" } };

export const tests = {
  "a claim without a word needs one also after a reload, until its holder says something": async ({ world, open }) => {
    const channel = await world.channel("silence");
    const { id: thread_id } = await world.task(channel, "Belongs to nobody");
    await world.admin.call("set_thread_owner", { thread_id, owner_id: null });
    const page = await open(world.admin);
    await page.at("");
    const { claim_lease_id } = await world.agent.call("claim_thread", { thread_id, lease_secs: 1200 });
    const need = `[data-need=unacknowledged][data-thread="${thread_id}"]`;
    await page.waitForSelector(need);
    await page.reload();
    await page.waitForSelector(need);
    await page.at("board?channel=silence");
    await page.inLane(thread_id, "needs-you");
    await world.agent.call("acknowledge_claim", { thread_id, claim_lease_id });
    await page.inLane(thread_id, "running");
    await page.reload();
    await page.inLane(thread_id, "running");
  },

  "a claim of nobody's task that lapsed needs one also after a reload, until somebody takes the task up": async ({
    world,
    open,
  }) => {
    const channel = await world.channel("lapses");
    const { id: thread_id } = await world.task(channel, "Lapses unowned");
    await world.admin.call("set_thread_owner", { thread_id, owner_id: null });
    const page = await open(world.admin);
    await page.at("");
    await world.claimed(world.agent, thread_id, { lease_secs: 10 });
    const need = `[data-need=lapsed][data-thread="${thread_id}"]`;
    await page.waitForSelector(need);
    await page.reload();
    await page.waitForSelector(need);
    const { claim_lease_id } = await world.claimed(world.agent, thread_id);
    await world.agent.call("release_claim", { thread_id, claim_lease_id });
    await page.waitForSelector(need, { state: "detached" });
    await page.reload();
    await page.settled();
    await page.live("live");
    assert.ok(!(await page.has(need)));
  },

  "gates come first, and each need is answered where it stands": async ({ world, open }) => {
    const { admin, agent } = world;
    const channel = await world.channel("needs");
    const mention = await world.task(channel, "Speaks to me");
    await agent.call("post_message", { thread_id: mention.id, body: "@admin look here" });
    const task = await world.task(channel, "Asks me");
    await world.claimed(agent, task.id);
    const gate = await agent.call("request_approval", { thread_id: task.id, question: "May I go on?" });
    const reviewed = await world.task(channel, "Waits for my review");
    await admin.call("add_reviewer", { thread_id: reviewed.id, member_id: admin.id });
    const page = await open(admin);
    await page.at("");
    await page.says("main", /May I go on/);
    await page.says("main", /look here|Speaks to me/);
    const text = await page.locator("main").innerText();
    assert.ok(text.indexOf("Asks me") < text.indexOf("Speaks to me"), text);
    const accept = page.locator(`[data-gate="${gate.id}"] [data-of="approval_decide accept"]`).first();
    await accept.click();
    await page.says(`[data-gate="${gate.id}"]`, /press again/);
    await accept.click();
    await page.waitForFunction(
      (id) => !document.querySelector(`[data-gate="${id}"]:not([data-state=accepted])`),
      gate.id,
    );
    assert.equal((await admin.call("get_approval_gate", { gate_id: gate.id })).state, "accepted");
  },

  "a need arrives by itself, and . goes to the next from anywhere": async ({ world, open }) => {
    const channel = await world.channel("next");
    const task = await world.task(channel, "Asks later");
    await world.claimed(world.agent, task.id);
    const page = await open(world.admin);
    await page.at("");
    await world.agent.call("request_approval", { thread_id: task.id, question: "And now?" });
    await page.says("main", /And now\?/);
    await page.at("board");
    await page.keyboard.press(".");
    await page.waitForSelector("[data-screen=now]");
    await page.waitForFunction(() => document.activeElement?.closest("[data-screen=now]") !== null);
  },

  "what is said elsewhere moves nothing under a pointer that rests": async ({ world, open }) => {
    const { admin, agent } = world;
    const channel = await world.channel("elsewhere");
    const [task, other] = [await world.task(channel, "Asks"), await world.task(channel, "Is talked about")];
    await world.claimed(agent, task.id);
    const gate = await agent.call("request_approval", { thread_id: task.id, question: "May I stand still?" });
    const page = await open(admin);
    await page.at("");
    const accept = `[data-gate="${gate.id}"] [data-of="approval_decide accept"]`;
    await page.waitForSelector(accept);
    const others = await page.rests(accept, async () => {
      for (let at = 0; at < 5; at += 1) {
        await agent.call("post_message", { thread_id: other.id, body: `Something else ${at}` });
        await page.reached(agent.lsn);
      }
    });
    assert.equal(others, 0);
  },

  "of more reviews than are told it says so, and of an age only what is known": async ({ world, open }) => {
    const reviewer = await world.newAgent("weary");
    await world.admin.call("confer_skill", { member_id: reviewer.id, skill: "review" });
    const channel = await world.channel("many reviews");
    const judge = (task, action) => world.admin.call("transition_thread", { thread_id: task.id, action });
    const tasks = [];
    for (let at = 0; at < 20; at += 1) {
      tasks.push(await world.task(channel, `Waits for a review ${at}`));
      await judge(tasks[at], "start_review");
    }
    const page = await open(reviewer);
    await page.at("");
    await page.says("main h1 .count", /^20\+$/);
    await page.says("main [role=status]", /More reviews may be awaited/);
    const age = (task) => page.locator(`[data-need=review][data-thread="${task.id}"] time`);
    assert.equal(await age(tasks[0]).isVisible(), false);
    await judge(tasks[19], "return_to_open");
    await page.says("main h1 .count", /^19$/);
    await judge(tasks[19], "start_review");
    await page.says("main h1 .count", /^20\+$/);
    await age(tasks[19]).waitFor();
  },

  "a critical finding needs one as long as the task is not done, and what is not looked at is told": async ({
    world,
    open,
  }) => {
    const { admin } = world;
    const [owner, reviewer] = [await world.newAgent("finder"), await world.newAgent("severe")];
    await admin.call("confer_skill", { member_id: reviewer.id, skill: "review" });
    const channel = await world.channel("findings");
    const owned = async (title) => {
      const task = await world.task(channel, title);
      await admin.call("set_thread_owner", { thread_id: task.id, owner_id: owner.id });
      return task.id;
    };
    const thread_id = await owned("Has a critical finding");
    const { claim_lease_id } = await world.claimed(world.agent, thread_id);
    await world.agent.call("set_thread_result", { thread_id, claim_lease_id, result: {}, action: "start_review" });
    const findings = [{ severity: "critical", body: "It drops data." }];
    await reviewer.call("submit_review", { thread_id, verdict: "request_changes", body: "no", findings });
    await admin.call("transition_thread", { thread_id, action: "return_to_open" });
    const budgeted = await owned("Has nearly nothing left");
    await admin.call("set_thread_budget", { thread_id: budgeted, max_tokens: 0 });
    const page = await open(owner);
    await page.at("");
    await page.says(`[data-need=finding][data-thread="${thread_id}"]`, /It drops data/);
    await page.waitForSelector(`[data-need=budget][data-thread="${budgeted}"]`);
    await page.says("main h1 .count", /^\d+$/);
    for (let at = 0; at < 59; at += 1) await owned(`Is one of many ${at}`);
    await page.says("main h1 .count", /^\d+\+$/);
    await page.says("main [role=status]", /findings of 60/);
  },

  "a link to an approval asks who one is, and is answered there": async ({ world, open }) => {
    const task = await world.task(await world.channel("links"), "Hands out a link");
    await world.claimed(world.agent, task.id);
    const gate = await world.agent.call("request_approval", { thread_id: task.id, question: "By a link?" });
    const { link } = await world.agent.refused(
      "approval_decide",
      { gate_id: gate.id, decision: "accept" },
      "needs-person",
    );
    const path = link.url.split("/ui/")[1];
    const page = await open(null);
    await page.goto(world.url + path);
    await page.waitForSelector("[name=token]");
    assert.ok(!(await page.content()).includes("By a link?"));
    await page.fill("[name=token]", world.admin.token);
    await page.keyboard.press("Enter");
    await page.says("[data-screen=approval]", /By a link\?/);
    assert.equal(page.url(), world.url + path);
    const accept = page.locator(`[data-gate="${gate.id}"] [data-of="approval_decide accept"]`).first();
    await accept.click();
    await accept.click();
    await page.waitForSelector(`[data-gate="${gate.id}"][data-state=accepted]`);
    await page.reload();
    await page.says("[data-screen=approval]", /This link has ended/);
  },
};
