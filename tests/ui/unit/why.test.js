// Why nobody works on a task, and what a refusal says: each obstacle that the API has is a sentence with a way out.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { closeNeeds, isFreeForSure, mayBeDone, whyOf, whyRefused } from "../../../svc-http/ui/pure/why.js";
import * as strings from "../../../svc-http/ui/strings/en.js";

const root = new URL("../../../", import.meta.url);
const schema = (name) => JSON.parse(readFileSync(new URL(`tests/golden/schemas/${name}.json`, root), "utf8"));
const constants = ({ enum: all, oneOf = [] }) => all ?? oneOf.map((one) => one.const);

const free = {
  state: "open",
  assignee_id: null,
  blocked: 0,
  has_result: false,
  exhausted: false,
  dead: false,
  required_skills: ["c"],
};
const item = { kind: "path", value: "src/a.rs" };
const claim = { item, holder: "m1", lease_expires_at: "2026-01-01T14:02:00Z", thread_id: "t9" };

/** A sentence as one reads it. */
const said = (parts) => parts.map((part) => (typeof part === "string" ? part : `<${Object.keys(part)[0]}>`)).join("");
const sentences = (whys) => whys.map((why) => said(strings.sentence(why)));

test("nothing blocks what runs, is done, is judged, or can be taken", () => {
  for (const fields of [
    {},
    { assignee_id: "a", blocked: 1 },
    { state: "closed", dead: true },
    { state: "in_review", exhausted: true },
  ]) {
    assert.deepEqual(whyOf({ ...free, ...fields }, {}), []);
  }
});

test("what touches something or needs a skill is free for sure only if all that waits is known", () => {
  const footprint = { repo: null, mode: "exclusive", items: [item] };
  const plain = { ...free, required_skills: [], footprint: null };
  assert.ok(isFreeForSure(plain, false));
  assert.ok(isFreeForSure({ ...free, footprint }, true));
  assert.ok(!isFreeForSure({ ...plain, footprint }, false));
  assert.ok(!isFreeForSure({ ...plain, required_skills: ["c"] }, false));
});

test("each obstacle is one sentence", () => {
  const waits = [
    { thread_id: "a", finished: false },
    { thread_id: "b", finished: true },
  ];
  const table = [
    [
      {},
      { obstacles: [{ reason: "overlap", ...claim }] },
      "<code> is held by <member> on <thread>, until <time>; it is free when the claim ends: ask <member>.",
    ],
    [
      {},
      { obstacles: [{ reason: "overlap", ...claim, thread_id: undefined }] },
      "<code> is held by somebody in a channel that you cannot see, until <time>; it is free when the claim ends.",
    ],
    [
      {},
      { obstacles: [{ reason: "slot-full", ...claim, thread_id: undefined }] },
      "The slot <code> is full; the next place is free by <time>.",
    ],
    [
      { footprint: { repo: "a/b" } },
      { obstacles: [{ reason: "repo-paused", item: null, holder: null, lease_expires_at: null }] },
      "The repository <code> is paused; resume the repository.",
    ],
    [{ blocked: 1 }, { waits }, "It waits for <thread>; finish that first, or wait for it no longer."],
    [{ blocked: 3 }, { waits }, "It waits for <thread> and 2 more; finish that first, or wait for it no longer."],
    [{ blocked: 2 }, {}, "It waits for 2 other tasks; that has to be finished first."],
    [{ blocked: 1 }, {}, "It waits for another task; that has to be finished first."],
    [
      {},
      { obstacles: [{ reason: "skills", item: null, holder: null, lease_expires_at: null }] },
      "No active member has all skills that it requires (c); require fewer skills, or add a member who has them.",
    ],
    [{ exhausted: true }, { exceeded: ["max_tokens"] }, "Nothing is left of its budget (tokens); raise the limit."],
    [{ dead: true, exhausted: true }, {}, "It failed over its budget; look at it, and requeue it."],
    [{ has_result: true }, {}, "Its work is handed in and waits for judgement; close it, or return it to open."],
    [{}, { archived: true }, "Its channel is archived; unarchive the channel."],
  ];
  for (const [fields, known, wanted] of table) {
    const whys = whyOf({ ...free, ...fields }, known);
    assert.deepEqual(sentences(whys), [wanted]);
  }
});

test("what the thread and the list both say is said once, and what waiting does not free stands first", () => {
  const conflict = (reason) => ({ reason, item: null, holder: null, lease_expires_at: null });
  const thread = { ...free, dead: true, blocked: 1 };
  const obstacles = [
    { reason: "overlap", ...claim },
    { reason: "overlap", ...claim },
    ...["dependencies", "dead-letter"].map(conflict),
  ];
  const whys = whyOf(thread, { obstacles, waits: [{ thread_id: "a", finished: false }] });
  assert.deepEqual(
    whys.map(({ code }) => code),
    ["dead-letter", "dependencies", "overlap"],
  );
});

test("every reason of a conflict that the API has is known", () => {
  const reasons = constants(schema("Conflict").properties.reason);
  assert.ok(reasons.includes("overlap") && reasons.length >= 7);
  for (const reason of reasons) {
    const [why] = whyOf(free, { obstacles: [{ reason, ...claim }] });
    assert.notEqual(why.code, "refused", reason);
    assert.match(said(strings.sentence(why)), /; .+\.$/);
  }
});

test("every reason of a refused claim is known", () => {
  const rules = readFileSync(new URL("svc-core/src/coordination/rules.rs", root), "utf8");
  const reasons = [...rules.matchAll(/not_claimable\(\s*"([\w-]+)"/g)].map(([, reason]) => reason);
  assert.ok(new Set(reasons).size >= 10, `${reasons}`);
  // These two are of who receives a claim, and have no facts beside the detail.
  for (const reason of reasons.filter((reason) => !["member", "channel"].includes(reason))) {
    const [why] = whyRefused({ code: "not-claimable", reason, detail: "d" });
    assert.notEqual(why.code, "refused", reason);
  }
  assert.deepEqual(whyRefused({ code: "not-claimable", reason: "member", detail: "no such member" })[0].detail, "no such member");
});

test("a refusal is read as it was answered, thrown, or listed in a context", () => {
  const conflicts = [{ reason: "overlap", ...claim }];
  const answered = { type: "/problems/footprint-conflict", status: 409, detail: "", conflicts };
  const thrown = { code: "footprint-conflict", status: 409, detail: "", members: { conflicts } };
  for (const refusal of [answered, thrown]) assert.equal(whyRefused(refusal)[0].holder, "m1");
  assert.match(said(strings.problemParts(thrown)), /^<code> is held by <member>/);
  assert.deepEqual(strings.waysOut(thrown), ["wait", "ask-holder", "narrow"]);
  const held = { code: "not-claimable", status: 409, detail: "", members: { reason: "claimed", holder: "m1" } };
  assert.equal(said(strings.problemParts(held)), "It is held by <member>");
  assert.deepEqual(strings.waysOut(held), ["wait", "ask-holder"]);
});

test("a refusal that is unknown says what the server said", () => {
  assert.deepEqual(strings.problemParts({ code: "odd", status: 409, detail: "because" }), ["because"]);
  assert.deepEqual(strings.problemParts({ code: "odd", status: 409, detail: "" }), ["The server refused"]);
  assert.deepEqual(strings.waysOut({ code: "odd", status: 409, detail: "" }), []);
});

function* sources(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const at = new URL(entry.name + (entry.isDirectory() ? "/" : ""), folder);
    if (entry.isDirectory()) yield* sources(at);
    else yield readFileSync(at, "utf8");
  }
}

test("every condition of a close has a line and what meets it", () => {
  const text = [...sources(new URL("svc-core/src/", root))].join("\n");
  const names = [...text.matchAll(/Condition \{ name: "([\w-]+)", action: CLOSE/g)].map(([, name]) => name);
  assert.ok(names.length >= 6, `${names}`);
  for (const condition of names) {
    const [need] = closeNeeds([{ condition, detail: "d", ids: ["1", "2"] }]);
    assert.ok(need.op, condition);
    assert.ok(strings.closes[condition], condition);
    assert.ok(strings.closes[condition](2).length > 0);
  }
  const [odd] = closeNeeds([{ condition: "odd", detail: "d", ids: [] }]);
  assert.equal(odd.op, null);
  const refused = {
    code: "close-refused",
    status: 409,
    detail: "",
    reasons: [{ condition: "children", detail: "", ids: ["1", "2"] }],
  };
  assert.deepEqual(strings.problemParts({ ...refused, members: { reasons: refused.reasons } }), ["2 child tasks are not closed"]);
});

test("a refusal that the own write may be the cause of is told from one that names another", () => {
  const refused = (status, members = {}, isUnknown = false) => mayBeDone({ status, members, isUnknown }, "me");
  assert.ok(refused(409) && refused(404), "it was done, or is gone");
  assert.ok(refused(409, { holder: "me" }) && refused(409, { updated_by: "me" }) && refused(409, { holder: null }));
  assert.ok(!refused(409, { holder: "another" }) && !refused(409, { updated_by: "another" }));
  assert.ok(!refused(403) && !refused(400) && !refused(429), "nothing was done");
  assert.ok(!refused(409, {}, true), "that is looked up in another way");
});

test("what the API enumerates has a name", () => {
  for (const reason of constants(schema("InboxReason"))) assert.ok(strings.inboxReasons[reason], reason);
  for (const state of constants(schema("ThreadState"))) assert.ok(strings.states[state], state);
  const exceeded = constants(schema("ThreadBudget").properties.exceeded.items);
  for (const limit of exceeded) assert.ok(strings.limits[limit], limit);
});

/** Names of two words that are of states, reasons and problems. */
const OTHERS = new Set(["in_review", "group_mention", "usd_micros", "wall_secs", "must_refetch", "workspace_id"]);

test("operations that are named are operations", () => {
  const table = readFileSync(new URL("tests/golden/operations.txt", root), "utf8");
  const known = new Set(table.split("\n").map((row) => row.split(" | ")[0]));
  for (const file of ["why.js", "rank.js", "../worker/verify.js"]) {
    const text = readFileSync(new URL(`svc-http/ui/pure/${file}`, root), "utf8");
    const named = [...text.matchAll(/"([a-z]+(?:_[a-z]+)+)"/g)].map(([, name]) => name).filter((name) => !OTHERS.has(name));
    assert.ok(named.length >= 3, file);
    assert.deepEqual(
      named.filter((name) => !known.has(name)),
      [],
      file,
    );
  }
});
