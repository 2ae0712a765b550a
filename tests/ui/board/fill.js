// One of everything in a workspace, with texts that are asked for by where they stand: what a screen shows is there.
//
// Promises: every text that a person or an agent may write of is asked of `words`, by operation and field; where each
// thing is, it returns. Leaves out: what the texts are.

const footprint = (value) => ({ repo: "acme/core", mode: "exclusive", items: [{ kind: "path", value }] });
const WORK = ["workspace:read", "message:post", "thread:transition"];

/**
 * @param {any} world
 * @param {(operation: string, field: string) => string} words
 */
export async function fill(world, words) {
  const { admin, agent } = world;
  const with_ =
    (client) =>
    (operation, input, ...fields) =>
      client.call(operation, {
        ...input,
        ...Object.fromEntries(fields.map((field) => [field, words(operation, field)])),
      });
  const [mine, theirs] = [with_(admin), with_(agent)];

  await mine("update_workspace", {}, "name");
  await mine("update_me", {}, "display_name");
  await agent.call("set_skills", { skills: ["rust"] });
  const made = await mine("create_agent", { handle: "helper" }, "display_name");
  const helper = Object.assign(world.clientOf(made.token.secret), { id: made.member.id });
  await admin.call("confer_skill", { member_id: helper.id, skill: "review" });
  const person = await world.person("paula");
  const frozen = await world.newAgent("frozen");
  await mine("freeze_member", { member_id: frozen.id }, "reason");

  const channel = await mine("create_channel", {}, "name", "topic");
  await mine("update_channel", { channel_id: channel.id }, "name", "topic");
  await mine("set_channel_boot", { channel_id: channel.id }, "text");
  await admin.call("set_glossary_term", {
    term: words("set_glossary_term", "term"),
    definition: words("set_glossary_term", "definition"),
  });
  const hidden = await admin.call("create_channel", { name: "hidden", private: true });

  const at = { channel_id: channel.id };
  const other = await mine("create_thread", { ...at, priority: 1, footprint: footprint("src/one") }, "title", "body");
  const waiting = await mine("create_thread", { ...at, depends_on: [other.id] }, "title");
  const blocked = await mine("create_thread", { ...at, footprint: footprint("src/one/two") }, "title");
  const skilled = await mine("create_thread", { ...at, required_skills: ["cobol"] }, "title");
  const done = await mine("create_thread", at, "title");
  await admin.call("transition_thread", { thread_id: done.id, action: "close" });
  const cancelled = await mine("create_thread", at, "title");
  await mine("cancel_thread", { thread_id: cancelled.id }, "reason");
  const late = await mine("create_thread", at, "title");
  await agent.call("claim_thread", { thread_id: late.id, lease_secs: 3_000 });
  const spent = await mine("create_thread", at, "title");
  await admin.call("set_thread_budget", { thread_id: spent.id, max_tokens: 10 });
  const lost = await world.claimed(agent, spent.id);
  await theirs(
    "report_usage",
    { thread_id: spent.id, claim_lease_id: lost.claim_lease_id, tokens: 50 },
    "model",
    "report_id",
  );
  await agent.call("release_claim", { thread_id: spent.id, claim_lease_id: lost.claim_lease_id });

  const task = await mine("create_thread", { ...at, priority: 3 }, "title", "body");
  const of = { thread_id: task.id };
  await mine("update_thread", of, "title");
  await mine("create_child_thread", of, "title", "body");
  await mine("set_thread_footprint", {
    ...of,
    repo: "acme/web",
    mode: "shared",
    items: [
      { kind: "path", value: words("set_thread_footprint", "items[].value") },
      { kind: "slot", value: "staging" },
    ],
  });
  await admin.call("set_thread_budget", { ...of, max_tokens: 1_000, max_usd_micros: 5_000_000, max_wall_secs: 9_000 });
  const lease = await world.claimed(agent, task.id, { lease_secs: 3_000 });
  const held = { ...of, claim_lease_id: lease.claim_lease_id };
  await agent.call("renew_claim", {
    ...held,
    lease_secs: 3_000,
    checkpoint: { next: words("renew_claim", "checkpoint") },
  });
  await theirs("report_usage", { ...held, tokens: 900, turns: 3, usd_micros: 12_000 }, "model", "report_id");
  await world.claimed(helper, other.id, { lease_secs: 3_000 });

  const said = await theirs("post_message", of, "body");
  const again = await theirs("post_message", of, "body");
  await theirs("edit_message", { message_id: again.id }, "body");
  await admin.call("add_reaction", { message_id: said.id, emoji: "🎉" });
  await admin.call("pin_message", { message_id: said.id });
  await agent.call("relate_message", { message_id: again.id, kind: "refutes", target_message_id: said.id });
  await agent.call("post_message", { ...of, body: `@admin ${words("post_message", "body")}` });
  const gone = await agent.call("post_message", { ...of, body: "Is taken back" });
  await agent.call("delete_message", { message_id: gone.id });
  const vote = await admin.call("create_vote", {
    ...of,
    question: words("create_vote", "question"),
    options: [words("create_vote", "options[]"), "No"],
  });
  await agent.call("cast_vote", { vote_id: vote.id, options: [0] });

  const gate = await theirs("request_approval", { ...of, blocks_close: true }, "question");
  const refused = await agent.refused("approval_decide", { gate_id: gate.id, decision: "accept" }, "needs-person");
  await mine("request_approval", of, "question");
  await admin.call("set_review_requirement", { ...of, approvals: 2 });
  await admin.call("add_reviewer", { ...of, member_id: admin.id });
  await helper.call("submit_review", {
    ...of,
    verdict: "request_changes",
    body: words("submit_review", "body"),
    findings: ["critical", "minor"].map((severity) => ({
      severity,
      body: words("submit_review", "findings[].body"),
      path: words("submit_review", "findings[].path"),
      line: 3,
    })),
  });
  await admin.call("require_land_gate", of);

  const judged = await mine("create_thread", at, "title");
  const last = await world.claimed(agent, judged.id);
  await agent.call("set_thread_result", {
    thread_id: judged.id,
    claim_lease_id: last.claim_lease_id,
    result: { branch: words("set_thread_result", "result"), head_sha: "a1b2c3" },
    result_kind: "acme.change/1",
    action: "start_review",
  });

  const block = await mine("create_memory_block", { limit: 20_000 }, "label", "description", "value");
  await mine("set_memory_block", { block_id: block.id }, "label", "description", "value");
  await admin.call("attach_memory_block", { ...of, block_id: block.id });
  await mine("pause_repo", { repo: "acme/paused" }, "reason");
  await mine("set_slot_capacity", { capacity: 2 }, "slot");
  const dm = await admin.call("open_dm", { member_ids: [agent.id, person.id] });
  await theirs("post_message", { thread_id: dm.thread_id }, "body");
  await theirs("send_heartbeat", { status: "busy", thread_id: task.id }, "note");
  await admin.call("follow", { target_id: task.id });

  await mine("mint_token", { member_id: agent.id, capabilities: WORK }, "label");
  const app = await mine("create_app", { slug: "app" }, "name");
  const installed = await admin.call("install_app", { app_id: app.id, granted_capabilities: WORK });
  await mine("mint_app_token", { installation_id: installed.id }, "label");
  await mine(
    "create_delegation_grant",
    { subject: admin.id, delegate: agent.id, capabilities: WORK, expires_in_secs: 9_000 },
    "purpose",
  );
  await admin.call("create_share_ticket", { channel_id: channel.id, expires_in_secs: 9_000 });
  await mine("place_legal_hold", {}, "reason");
  await admin.call("set_retention_policy", { messages_days: 400 });
  await admin.call("set_spawn_budget", { max_children: 5, max_depth: 2 });

  return {
    task: task.id,
    tasks: [task.id, other.id, waiting.id, blocked.id, skilled.id, done.id, cancelled.id, spent.id, judged.id],
    channel: channel.id,
    hidden: hidden.id,
    member: agent.id,
    dm: dm.id,
    block: block.id,
    link: refused.link.url.split("/").pop(),
    lsn: admin.lsn,
  };
}
