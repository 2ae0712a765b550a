// Plays a story on a server and writes down what it answered: the logs and the reads that the unit tests hold on to.
//
// One runs it by hand when answers or events have changed. The server is set up while its clock is 40 days back, as with
// libfaketime, and then runs on by the right one, so that there is something to prune:
//     SVC_RATE_LIMIT_MAX=0 svc-http --dev --data DATA --listen 127.0.0.1:7811 >PRINTED    node record.mjs story PRINTED
//     SVC_RETENTION_TICK_SECS=1 svc-http --data DATA --listen 127.0.0.1:7811              node record.mjs pruned PRINTED

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";

const BASE = "http://127.0.0.1:7811";
const here = new URL(".", import.meta.url);
const printed = readFileSync(process.argv[3], "utf8");
const found = (pattern) => pattern.exec(printed)[1];
const workspace_id = found(/^workspace (\S+)/m);
const tokens = { admin: found(/^token of admin .*: (\S+)/m), worker: found(/^token of worker .*: (\S+)/m) };

const rows = readFileSync(new URL("../../../golden/operations.txt", here), "utf8").split("\n");
const routes = new Map(rows.map((row) => row.split(" | ")).map(([name, method, path]) => [name, { method, path }]));

async function ask(who, op, input = {}) {
  const { method, path } = routes.get(op);
  const rest = { workspace_id, ...input };
  const filled = path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(rest[name]));
  for (const [, name] of path.matchAll(/\{(\w+)\}/g)) delete rest[name];
  if (!("workspace_id" in input)) delete rest.workspace_id;
  const url = new URL(BASE + filled);
  const hasBody = method !== "GET" && Object.keys(rest).length > 0;
  if (!hasBody) for (const [name, value] of Object.entries(rest)) url.searchParams.set(name, value);
  const response = await fetch(url, {
    method,
    headers: { authorization: `Bearer ${tokens[who]}`, ...(hasBody ? { "content-type": "application/json" } : {}) },
    body: hasBody ? JSON.stringify(rest) : undefined,
  });
  const body = await response.json().catch(() => null);
  if (response.status !== 404 && !response.ok) throw new Error(`${op}: ${JSON.stringify(body)}`);
  return { body: response.ok ? body : null, lsn: Number(response.headers.get("svc-room-lsn")) };
}

async function all(who, op, input = {}) {
  const items = [];
  for (let cursor; ; ) {
    const { body } = await ask(who, op, { ...input, ...(cursor ? { cursor } : {}) });
    items.push(...body.items);
    cursor = body.next_cursor;
    if (!cursor) return items;
  }
}

// What there is, read anew: by kind, then by id.
async function read(who) {
  const whole = {};
  const put = (kind, id, fields) => ((whole[kind] ??= {})[id] = fields);
  for (const member of await all(who, "list_members")) put("member", member.id, member);
  for (const channel of await all(who, "list_channels")) {
    put("channel", channel.id, channel);
    for (const { id } of await all(who, "list_threads", { channel_id: channel.id })) await readThread(who, id, put);
  }
  for (const gate of await all(who, "list_approval_gates")) put("gate", gate.id, gate);
  for (const letter of await all(who, "list_dead_letters")) put("dead_letter", letter.id, letter);
  for (const pause of await all(who, "list_repo_pauses")) put("pause", pause.repo, pause);
  for (const row of await all(who, "list_deferred_threads")) put("deferred", row.thread_id, row);
  return whole;
}

async function readThread(who, thread_id, put) {
  put("thread", thread_id, (await ask(who, "get_thread", { thread_id })).body);
  put("budget", thread_id, (await ask(who, "get_thread_budget", { thread_id })).body);
  put("dependencies", thread_id, { id: thread_id, items: await all(who, "list_thread_dependencies", { thread_id }) });
  put("reviewers", thread_id, { id: thread_id, items: await all(who, "list_reviewers", { thread_id }) });
  for (const message of await all(who, "list_messages", { thread_id })) put("message", message.id, message);
  for (const review of await all(who, "list_reviews", { thread_id })) put("review", review.id, review);
  for (const vote of await all(who, "list_votes", { thread_id })) put("vote", vote.id, vote);
}

// What is another than before; null for what is no more.
function differing(before, after) {
  const changes = {};
  for (const kind of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const ids = new Set([...Object.keys(before[kind] ?? {}), ...Object.keys(after[kind] ?? {})]);
    for (const id of ids) {
      const [old, now] = [before[kind]?.[id], after[kind]?.[id] ?? null];
      if (JSON.stringify(old) !== JSON.stringify(now)) (changes[kind] ??= {})[id] = now;
    }
  }
  return changes;
}

async function story() {
  const steps = [];
  let before = {};
  async function step(who, op, input) {
    const { body } = await ask(who, op, input);
    const after = await read("admin");
    const { lsn } = await ask("admin", "get_room", {});
    steps.push({ op, lsn, changes: differing(before, after) });
    before = after;
    return body;
  }
  await play(step);
  save("story.json", { workspace_id, me: (await ask("admin", "whoami")).body, steps });
  save("opened.json", await all("admin", "list_events"));
  const { head, floor } = (await ask("admin", "get_room", {})).body;
  save("whole.json", { workspace_id, head, floor, events: await all("admin", "catch_up_events") });
  save("part.json", { workspace_id, head, floor, events: await all("worker", "list_events") });
}

async function play(step) {
  const channel_id = (await step("admin", "create_channel", { name: "general", topic: "all of it" })).id;
  const hidden = (await step("admin", "create_channel", { name: "hidden", private: true })).id;
  const footprint = { repo: "acme/core", mode: "exclusive", items: [{ kind: "path", value: "src/lib.rs" }] };
  const first = (await step("admin", "create_thread", { channel_id, title: "Parse the log", footprint })).id;
  const second = (await step("admin", "create_thread", { channel_id, title: "Port the parser", depends_on: [first] })).id;
  const third = (await step("admin", "create_thread", { channel_id, title: "Überprüfen 👩‍🔧", footprint, priority: 5 })).id;
  await step("admin", "create_thread", { channel_id: hidden, title: "A secret" });
  const child = (await step("admin", "create_child_thread", { thread_id: first, title: "A part of it" })).id;
  await step("worker", "set_skills", { skills: ["rust", "c"] });
  await step("admin", "set_required_skills", { thread_id: second, required_skills: ["rust"] });
  await step("admin", "set_thread_priority", { thread_id: first, priority: 10 });
  await step("admin", "update_thread", { thread_id: first, title: "Parse the whole log" });
  const said = (await step("admin", "post_message", { thread_id: first, body: "Hello **@worker**\u202e" })).id;
  await step("admin", "edit_message", { message_id: said, body: "Hello again" });
  await step("worker", "add_reaction", { message_id: said, emoji: "👍" });
  await step("admin", "pin_message", { message_id: said });
  const budget = { thread_id: first, max_tokens: 1000, max_attempts: 5 };
  await step("admin", "set_thread_budget", budget);
  const lease = await claimed(step, first);
  await step("worker", "acknowledge_claim", { thread_id: first, claim_lease_id: lease });
  await step("worker", "renew_claim", { thread_id: first, claim_lease_id: lease, lease_secs: 600, checkpoint: { at: 1 } });
  const report = { thread_id: first, claim_lease_id: lease, report_id: "r1", tokens: 900, turns: 1 };
  await step("worker", "report_usage", report);
  const asked = { thread_id: first, question: "May it go?", needs_person: false };
  const gate_id = (await step("worker", "request_approval", asked)).id;
  await step("admin", "approval_decide", { gate_id, decision: "accept" });
  await step("worker", "release_claim", { thread_id: first, claim_lease_id: lease });
  const again = await claimed(step, first);
  await step("worker", "report_usage", { ...report, claim_lease_id: again, report_id: "r2", tokens: 200 });
  await step("worker", "release_claim", { thread_id: first, claim_lease_id: again });
  const letter = (await ask("admin", "list_dead_letters")).body.items[0];
  await step("admin", "set_thread_budget", { ...budget, max_tokens: 5000 });
  await step("admin", "requeue_dead_letter", { dead_letter_id: letter.id });
  const once_more = await claimed(step, first);
  await step("worker", "set_thread_result", { thread_id: first, claim_lease_id: once_more, result: { done: true } });
  await step("admin", "transition_thread", { thread_id: first, action: "start_review" });
  const finding = { severity: "critical", body: "It is wrong", path: "src/lib.rs", line: 3 };
  const judged = { thread_id: first, verdict: "request_changes", body: "Not yet", findings: [finding] };
  const review = await step("admin", "submit_review", judged);
  const mend = { thread_id: first, finding_id: review.findings[0].id, resolution: "fixed" };
  await step("admin", "resolve_finding", mend);
  await step("admin", "transition_thread", { thread_id: child, action: "close" });
  await step("admin", "transition_thread", { thread_id: first, action: "close" });
  await step("admin", "transition_thread", { thread_id: first, action: "reopen" });
  await step("admin", "pause_repo", { repo: "Acme/Core", reason: "a release" });
  await step("admin", "resume_repo", { repo: "acme/core" });
  const ballot = { thread_id: third, question: "Which?", options: ["this", "that"] };
  const vote_id = (await step("admin", "create_vote", ballot)).id;
  await step("worker", "cast_vote", { vote_id, options: [1] });
  await step("admin", "close_vote", { vote_id });
  const member_id = (await ask("worker", "whoami")).body.member_id;
  await step("admin", "add_reviewer", { thread_id: third, member_id });
  await step("admin", "remove_reviewer", { thread_id: third, member_id });
  await claimed(step, third);
  await step("admin", "freeze_member", { member_id, reason: "a test" });
  await step("admin", "unfreeze_member", { member_id });
  await step("admin", "remove_thread_dependency", { thread_id: second, depends_on_id: first });
  await step("admin", "set_thread_owner", { thread_id: second, owner_id: member_id });
  await step("admin", "cancel_thread", { thread_id: second, reason: "not needed" });
  const gone = (await step("worker", "post_message", { thread_id: third, body: "To be withdrawn" })).id;
  await step("worker", "delete_message", { message_id: gone });
  await step("admin", "update_channel", { channel_id, name: "all", topic: null });
  await step("admin", "archive_channel", { channel_id });
  await step("admin", "unarchive_channel", { channel_id });
}

async function claimed(step, thread_id) {
  return (await step("worker", "claim_thread", { thread_id, lease_secs: 3600 })).claim_lease_id;
}

// What happened 40 days ago is pruned soon.
async function pruned() {
  const { head } = (await ask("admin", "get_room", {})).body;
  await ask("admin", "set_retention_policy", { events_days: 30 });
  await ask("admin", "create_channel", { name: "after" });
  for (let tries = 0; (await ask("admin", "get_room", {})).body.floor === 1; tries += 1) {
    if (tries > 120) throw new Error(`nothing was pruned up to ${head.lsn}`);
    await new Promise((resume) => setTimeout(resume, 1000));
  }
  const room = (await ask("admin", "get_room", {})).body;
  const events = await all("admin", "catch_up_events");
  save("pruned.json", { workspace_id, head: room.head, floor: room.floor, events });
}

function save(name, value) {
  mkdirSync(here, { recursive: true });
  writeFileSync(new URL(name, here), `${JSON.stringify(value, null, 1)}\n`);
}

await { story, pruned }[process.argv[2]]();
