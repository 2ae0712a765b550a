// A task: claimed, spoken in, reviewed, judged and closed, all on its own screen.

import assert from "node:assert/strict";

const panel = (id) => `[data-panel=${id}]`;
const act = (id, more = "") => `${more} [data-of="${id}"]`.trim();

/** Presses what asks to be pressed again. */
async function pressTwice(page, selector) {
  await page.click(selector);
  await page.says(selector, /press again/);
  await page.click(selector);
}

export const tests = {
  "a claim is taken, renewed, left with a checkpoint and released": async ({ world, open }) => {
    const channel = await world.channel("claims");
    const task = await world.task(channel, "Is worked on");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.waitForSelector("[data-why=free]");
    await page.click(act("claim_thread", panel("claim")));
    await page.says(panel("claim"), /Held by[^]*acknowledged/);
    await page.waitForSelector(".timeline [data-event]");
    await page.says(".timeline", /claimed the task/);
    await page.says(panel("claim"), /event \d+/);
    const bar = page.locator(`${panel("claim")} progress`);
    await bar.waitFor();
    await page.reload();
    await page.says(panel("claim"), /Held by[^]*acknowledged/);
    assert.equal(await bar.isVisible(), false, "how long it is in all is not known any more");
    await page.live("live");
    await page.click(act("renew_claim", panel("claim")));
    await page.says(".timeline", /renewed the claim/);
    await bar.waitFor();
    await page.getByRole("button", { name: "Actions", exact: true }).click();
    await page.click(act("checkpoint_claim", "dialog"));
    await page.fill("dialog [name=checkpoint]", JSON.stringify({ done: ["read it"], next: "write it" }));
    await page.click("dialog form [type=submit]");
    await page.says(panel("checkpoint"), /write it/);
    await pressTwice(page, act("release_claim", panel("claim")));
    await page.waitForSelector("[data-why=free]");
    const { assignee_id } = await world.admin.call("get_thread", { thread_id: task.id });
    assert.equal(assignee_id, null);
  },

  "what one says and does oneself is shown while paused, what others say waits": async ({ world, open }) => {
    const task = await world.task(await world.channel("pauses"), "Is paused over");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.click("h1");
    await page.keyboard.press("p");
    await page.live("paused");
    await world.agent.call("post_message", { thread_id: task.id, body: "Another says" });
    await page.fill("textarea[name=body]", "I say so myself");
    await page.keyboard.press("Control+Enter");
    await page.says(".timeline [data-message]", /I say so myself/);
    await page.click(act("claim_thread", panel("claim")));
    await page.says(panel("claim"), /Held by/);
    await page.click(act("release_claim", panel("claim")));
    await page.click(act("release_claim", panel("claim")));
    await page.waitForSelector("[data-why=free]");
    assert.ok(!(await page.texts(".timeline")).join().includes("Another says"));
    await page.locator("textarea[name=body]").blur();
    await page.keyboard.press("p");
    await page.says(".timeline", /Another says[^]*I say so myself/);
    assert.equal(await page.locator(".timeline [data-message] >> text=I say so myself").count(), 1);
  },

  "words are there at once, and what others say arrives at the end": async ({ world, open }) => {
    const channel = await world.channel("words");
    const task = await world.task(channel, "Is talked about");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    const answer = world.proxy.hold(/^POST \/threads\/[^/]+\/messages/);
    await page.fill("textarea[name=body]", "Hello **there**, see https://example.org/a?b=c");
    await page.keyboard.press("Control+Enter");
    await answer.kept;
    await page.waitForSelector(".timeline .message >> text=Hello");
    answer.release();
    await page.waitForSelector(".timeline [data-message]");
    assert.equal(await page.locator(".timeline [data-message] strong >> text=there").count(), 1);
    assert.equal(await page.locator('.timeline a[href="https://example.org/a?b=c"]').count(), 1);
    assert.equal(await page.locator(".timeline .message >> text=Hello").count(), 1, "it is not there twice");
    const said = await world.agent.call("post_message", { thread_id: task.id, body: "An answer" });
    await page.says(".timeline li:last-child", /worker[^]*An answer/);
    await page.at(`t/${task.id}#m-${said.id}`);
    await page.waitForFunction((id) => document.activeElement?.dataset.message === id, said.id);
  },

  "the field stays in sight while others speak, and so does what one says": async ({ world, open }) => {
    const task = await world.task(await world.channel("busy"), "Is talked about much");
    const say = (body) => world.agent.call("post_message", { thread_id: task.id, body });
    for (let at = 0; at < 20; at += 1) await say(`Words ${at}`);
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    const field = page.locator("textarea[name=body]");
    await field.click();
    await page.keyboard.type("I am writing");
    const { y } = await field.boundingBox();
    for (let at = 0; at < 5; at += 1) await say(`Arrives ${at}`);
    await page.says(".timeline", /Arrives 4/);
    assert.ok(Math.abs((await field.boundingBox()).y - y) < 1, "it stands where it stood");
    await page.keyboard.press("Control+Enter");
    const own = page.locator(".timeline [data-message]", { hasText: "I am writing" });
    await own.waitFor();
    await page.waitForFunction(() => {
      const { bottom } = document.querySelector(".timeline > li:last-child").getBoundingClientRect();
      return bottom <= document.querySelector(".composer").getBoundingClientRect().top;
    });
  },

  "words of which nobody has said whether they were posted outlive a reload": async ({ world, open }) => {
    const task = await world.task(await world.channel("unsure"), "Is talked about");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    const answer = world.proxy.hold(/^POST \/threads\/[^/]+\/messages/);
    await page.fill("textarea[name=body]", "words to keep");
    await page.keyboard.press("Control+Enter");
    await answer.kept;
    assert.equal(await page.inputValue("textarea[name=body]"), "");
    await page.reload();
    answer.release();
    await page.waitForFunction(() => document.querySelector("textarea[name=body]")?.value === "words to keep");
    await page.fill("textarea[name=body]", "others");
    await page.keyboard.press("Control+Enter");
    await page.waitForSelector(".timeline [data-message] >> text=others");
    await page.reload();
    await page.waitForSelector(".timeline [data-message] >> text=others");
    assert.equal(await page.inputValue("textarea[name=body]"), "");
  },

  "nothing changes places under a pointer that rests": async ({ world, open }) => {
    const { admin, agent } = world;
    const task = await world.task(await world.channel("still"), "Is wanted by two");
    const said = await agent.call("post_message", { thread_id: task.id, body: "Is read" });
    const page = await open(admin);
    await page.at(`t/${task.id}`);
    const claim = act("claim_thread", panel("claim"));
    await page.waitForSelector(claim);
    const claimed = async () => {
      await world.claimed(agent, task.id);
      await page.says(panel("claim"), /Held by/);
      await page.waitForSelector(act("transition_thread close", panel("claim")));
    };
    assert.equal(await page.rests(claim, claimed), 0);
    assert.equal(await page.getAttribute(claim, "aria-disabled"), "true");
    const message = `[data-message="${said.id}"]`;
    const asked = async () => {
      await agent.call("request_approval", { thread_id: task.id, question: "May I?" });
      await page.says(".task-main > .news-place", /1 new/);
    };
    assert.equal(await page.rests(message, asked), 0);
    await page.waitForSelector(claim, { state: "detached" });
    assert.ok(!(await page.has("[data-gate]")));
    const offline = async () => {
      world.proxy.down(true);
      await page.says(".strip", /Offline/);
    };
    assert.equal(await page.rests(message, offline), 0);
    const { y } = await page.locator(message).boundingBox();
    await page.mouse.move(0, 0);
    await page.waitForSelector("[data-gate]");
    world.proxy.down(false);
    await page.live("live");
    await page.waitForFunction(
      ([message, y]) => document.querySelector(message).getBoundingClientRect().y > y,
      [message, y],
    );
  },

  "an edit above moves nothing under a pointer that rests, whether it adds lines or takes them": async ({
    world,
    open,
  }) => {
    const { agent } = world;
    const channel = await world.channel("edits");
    const lines = (count) => Array.from({ length: count }, (_, at) => `Line ${at} of ${count}`).join("\n");
    for (const path of [({ id }) => `t/${id}`, ({ id }) => `c/${channel}?t=${id}`]) {
      const task = await world.task(channel, "Is talked about");
      const first = await agent.call("post_message", { thread_id: task.id, body: lines(9) });
      const second = await agent.call("post_message", { thread_id: task.id, body: lines(2) });
      const page = await open(world.admin);
      await page.at(path(task));
      const edited = (count) => async () => {
        await agent.call("edit_message", { message_id: first.id, body: lines(count) });
        await page.says(`[data-message="${first.id}"]`, new RegExp(`of ${count}`));
      };
      for (const count of [1, 20, 5]) {
        assert.equal(await page.rests(`[data-message="${second.id}"]`, edited(count)), 0, `${path(task)}: ${count}`);
      }
    }
  },

  "a mention is completed, and whom it does not reach is told": async ({ world, open }) => {
    const outsider = await world.newAgent("outsider");
    const { id: channel } = await world.admin.call("create_channel", { name: "closed", private: true });
    const task = await world.task(channel, "Is private");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.locator("textarea[name=body]").pressSequentially("Ask @out");
    const choice = page.getByRole("option", { name: /outsider/ });
    if (await choice.count()) await choice.first().click();
    else await page.fill("textarea[name=body]", `Ask @${outsider.handle}`);
    await page.keyboard.press("Control+Enter");
    await page.says(".composer", /not reach[^]*outsider/);
  },

  "a review with a critical finding keeps the task open until it is resolved": async ({ world, open }) => {
    const { admin, agent } = world;
    const channel = await world.channel("reviews");
    const reviewer = await world.newAgent("reviewer");
    const task = await world.task(channel, "Is reviewed");
    const claim = await world.claimed(agent, task.id);
    // A finding is resolved by whoever may review and has not worked on the task.
    const page = await open(reviewer);
    await page.at(`t/${task.id}`);
    await admin.call("set_review_requirement", { thread_id: task.id, approvals: 1 });
    await page.waitForSelector("[data-close-needs=approvals]");
    await admin.call("confer_skill", { member_id: reviewer.id, skill: "review" });
    await agent.call("set_thread_result", {
      thread_id: task.id,
      claim_lease_id: claim.claim_lease_id,
      result: { head_sha: "a1b2c3" },
      action: "start_review",
    });
    await reviewer.call("submit_review", {
      thread_id: task.id,
      verdict: "request_changes",
      body: "Not yet.",
      findings: [
        { severity: "minor", body: "A magic number." },
        { severity: "critical", body: "It drops what is queued.", path: "src/queue.rs", line: 88 },
      ],
    });
    await page.waitForSelector("[data-close-needs=findings]");
    const findings = await page.texts(`${panel("reviews")} .review li`);
    assert.match(findings[0], /Critical[^]*drops/);
    assert.match(findings[0], /src\/queue\.rs:88/);
    await page.says("[data-close-needs=findings]", /It drops what is queued/);
    await page.click(act("resolve_finding fixed", "[data-close-needs=findings]"));
    await page.waitForSelector("[data-close-needs=findings]", { state: "detached" });
    await reviewer.call("submit_review", { thread_id: task.id, verdict: "approve", body: "Now it is." });
    await page.waitForSelector("[data-close-needs]", { state: "detached" });
    await page.says(panel("close"), /Nothing is missing/);
    await pressTwice(page, act("transition_thread close", panel("claim")));
    await page.waitForSelector("[data-why=done]");
    assert.equal((await admin.call("get_thread", { thread_id: task.id })).state, "closed");
  },

  "an approval is armed by the first press and sent by the second": async ({ world, open }) => {
    const channel = await world.channel("approvals");
    const task = await world.task(channel, "Asks first");
    await world.claimed(world.agent, task.id);
    const gate = await world.agent.call("request_approval", {
      thread_id: task.id,
      question: "May I *drop* the table?",
      blocks_close: true,
    });
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.says("[data-close-needs=approval-gate]", /May I \*drop\* the table[^]*Accept/);
    await page.waitForSelector(`[data-gate="${gate.id}"]`);
    assert.equal(await page.locator(`[data-gate="${gate.id}"] em`).innerText(), "drop");
    const accept = act("approval_decide accept", `[data-gate="${gate.id}"]`);
    await page.click(accept);
    assert.equal((await world.admin.call("get_approval_gate", { gate_id: gate.id })).state, "pending");
    await page.click(accept);
    await page.waitForSelector(`[data-gate="${gate.id}"][data-state=accepted]`);
    await page.waitForSelector("[data-close-needs=approval-gate]", { state: "detached" });
    assert.equal((await world.admin.call("get_approval_gate", { gate_id: gate.id })).resolved_by, world.admin.id);
  },

  "a person without the capability decides with a token, which is sent once and kept nowhere": async ({
    world,
    open,
  }) => {
    const person = await world.person("tess");
    const channel = await world.channel("by token");
    const task = await world.task(channel, "Asks a person");
    await world.claimed(world.agent, task.id);
    const gate = await world.agent.call("request_approval", { thread_id: task.id, question: "May I?" });
    const capabilities = ["workspace:read", "thread:transition", "approval:grant"];
    const { secret } = await world.admin.call("mint_token", { member_id: person.id, capabilities });
    const page = await open(person);
    const sent = [];
    page.on("request", (request) => sent.push([request.url(), JSON.stringify(request.headers())]));
    await page.at("");
    await page.waitForSelector(`[data-need=gate] [data-gate="${gate.id}"] [name=token]`);
    await page.at("board");
    await page.inLane(task.id, "needs-you");
    await page.at(`t/${task.id}`);
    await page.waitForSelector(`[data-gate="${gate.id}"] [name=token]`);
    const field = page.locator(`[data-gate="${gate.id}"] [name=token]`);
    assert.equal(await field.getAttribute("autocomplete"), "one-time-code");
    const accept = page.locator(`[data-gate="${gate.id}"] [data-decision=accept]`);
    await field.fill(secret);
    await page.keyboard.press("Escape");
    assert.equal(await field.evaluate((node) => node === document.activeElement), false);
    assert.equal(await field.inputValue(), secret, "Escape leaves the field, and not the task");
    await accept.click();
    await page.says(`[data-gate="${gate.id}"]`, /press again/);
    await accept.click();
    await page.waitForSelector(`[data-gate="${gate.id}"][data-state=accepted]`);
    assert.equal(sent.filter(([, headers]) => headers.includes(secret)).length, 1);
    const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, history.state]));
    assert.ok(!kept.includes("svc_"), kept);
    assert.equal(
      await page.evaluate(() => [...document.querySelectorAll("input")].some(({ value }) => value.startsWith("svc_"))),
      false,
    );
  },

  "one's own request says who else can": async ({ world, open }) => {
    const channel = await world.channel("own request");
    const task = await world.task(channel, "Asks itself");
    const gate = await world.admin.call("request_approval", { thread_id: task.id, question: "May I?" });
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.says(`[data-gate="${gate.id}"]`, /your own request/);
    const accept = page.locator(act("approval_decide accept", `[data-gate="${gate.id}"]`));
    assert.deepEqual(await accept.filter({ visible: true }).all(), []);
  },

  "what is seen at once is taken back alone when it is refused": async ({ world, open }) => {
    const { admin, agent } = world;
    const channel = await world.channel("optimistic");
    const task = await world.task(channel, "Is set by two");
    const page = await open(admin);
    await page.at(`t/${task.id}`);
    await page.says(panel("about"), /Priority/i);
    const answer = world.proxy.hold(/^PUT \/threads\/[^/]+\/priority/);
    await page.getByRole("button", { name: "Actions", exact: true }).click();
    await page.click(act("set_thread_priority", "dialog"));
    await page.fill("dialog [name=priority]", "7");
    await page.click("dialog form [type=submit]");
    await answer.kept;
    await page.says(panel("about"), /\b7\b/);
    await agent.call("set_thread_owner", { thread_id: task.id, owner_id: agent.id });
    await page.reached(agent.lsn);
    await page.says(panel("about"), /worker/);
    answer.release();
    await page.says(panel("about"), /\b7\b/);
  },

  "a task that is not there is told as what it is": async ({ world, open }) => {
    const page = await open(world.admin);
    await page.goto(`${world.url}t/01a00000-0000-7000-8000-000000000000`);
    await page.says("[data-screen=task] [role=alert]", /no such task/);
  },
};
