// What needs somebody, in which order, and what does not.

import assert from "node:assert/strict";
import { test } from "node:test";

import { canSee } from "../../../svc-http/ui/pure/lanes.js";
import { budgetShare, rankNow } from "../../../svc-http/ui/pure/rank.js";

const NOW = Date.parse("2026-11-26T12:00:00Z");
const at = (minutes) => new Date(NOW - minutes * 60_000).toISOString();
const me = { member_id: "me", kind: "human", mayGrant: true };
const thread = (id, fields = {}) => ({
  id,
  state: "open",
  owner_id: "me",
  assignee_id: null,
  claim_lease_id: null,
  acknowledged_at: null,
  has_result: false,
  dead: false,
  created_at: at(100),
  ...fields,
});
const gate = (id, fields = {}) => ({
  id,
  thread_id: "t1",
  state: "pending",
  needs_person: false,
  requested_by: "other",
  requested_at: at(5),
  expires_at: null,
  ...fields,
});
const ranked = (known) =>
  rankNow({
    me,
    now: NOW,
    threads: new Map(["t1", "t2", "t3"].map((id) => [id, thread(id)])),
    ...{ gates: [], letters: [], alarms: [], awaited: [], reviews: [], budgets: [], inbox: [] },
    caused: () => null,
    ...known,
  });
const rank = (known) => ranked(known).map(({ key, op }) => `${key} ${op}`);

test("approvals stand first, then what failed, reviews, budgets and words, and of each the older", () => {
  const ranked = rank({
    gates: [gate("g2"), gate("g1", { requested_at: at(50) })],
    letters: [{ id: "l", thread_id: "t2", holder: "other", settled_at: null, failed_at: at(1) }],
    alarms: [{ id: "t3", reason: "lapsed", claim_lease_id: null, member_id: "other", at: at(2) }],
    awaited: ["t2"],
    reviews: [
      {
        id: "r",
        thread_id: "t3",
        submitted_at: at(300),
        findings: [
          { id: "f1", severity: "critical", resolution: null },
          { id: "f2", severity: "critical", resolution: "fixed" },
          { id: "f3", severity: "minor", resolution: null },
        ],
      },
    ],
    budgets: [
      { thread_id: "t1", max_tokens: 100, used: { tokens: 80 } },
      { thread_id: "t2", max_tokens: 100, used: { tokens: 79 } },
    ],
    inbox: [
      { lsn: 9, reason: "mention", read: false, thread_id: "t1", message_id: "m", at: at(3) },
      { lsn: 8, reason: "mention", read: true, thread_id: "t1", message_id: "m", at: at(4) },
      { lsn: 7, reason: "claim_expired", read: false, thread_id: "t1", message_id: null, at: at(4) },
    ],
  });
  assert.deepEqual(ranked, [
    "gate/g1 approval_decide",
    "gate/g2 approval_decide",
    "lapsed/t3 claim_thread",
    "dead/l requeue_dead_letter",
    "finding/f1 resolve_finding",
    "review/t2 submit_review",
    "budget/t1 update_thread_budget",
    "mention/9 mark_inbox_read",
  ]);
});

test("of an age that nobody knows nothing is said, and what has one stands before it", () => {
  const caused = (kind, id) => ({ "review/t3": NOW - 1_000, "budget/t2": NOW - 2_000 })[`${kind}/${id}`] ?? null;
  const budgets = ["t1", "t2"].map((thread_id) => ({ thread_id, max_tokens: 10, used: { tokens: 9 } }));
  const known = { awaited: ["t1", "t2", "t3"], budgets, caused };
  assert.deepEqual(
    ranked(known).map(({ key, since }) => [key, since]),
    [
      ["review/t3", NOW - 1_000],
      ["review/t1", null],
      ["review/t2", null],
      ["budget/t2", NOW - 2_000],
      ["budget/t1", null],
    ],
  );
});

test("an approval is mine to answer only if I may, did not ask, and it is open", () => {
  const gates = [
    gate("own", { requested_by: "me" }),
    gate("over", { state: "accepted" }),
    gate("late", { expires_at: at(1) }),
    gate("mine"),
  ];
  assert.deepEqual(rank({ gates }), ["gate/mine approval_decide"]);
  const mayNot = { ...me, mayGrant: false };
  assert.deepEqual(rank({ gates, me: mayNot }), ["gate/mine approval_decide"], "a person can with a token that may");
  assert.deepEqual(rank({ gates, me: { ...mayNot, kind: "agent" } }), []);
  assert.deepEqual(rank({ gates: [gate("p", { needs_person: true })], me: { ...me, kind: "agent" } }), []);
});

test("a claim that nobody acknowledged is asked about, or acknowledged by who holds it", () => {
  const alarms = [{ id: "t1", reason: "unacknowledged", claim_lease_id: "c", member_id: "other", at: at(2) }];
  const held = (assignee_id, fields) =>
    new Map([["t1", thread("t1", { assignee_id, claim_lease_id: "c", ...fields })]]);
  assert.deepEqual(rank({ alarms, threads: held("other") }), ["unacknowledged/t1 post_message"]);
  assert.deepEqual(rank({ alarms, threads: held("me") }), ["unacknowledged/t1 acknowledge_claim"]);
  assert.deepEqual(rank({ alarms, threads: held("other", { acknowledged_at: at(1) }) }), []);
  assert.deepEqual(rank({ alarms, threads: held("other", { owner_id: "third" }) }), []);
});

test("what is used of a budget is what is used of the limit that is nearest", () => {
  assert.equal(budgetShare({ max_tokens: 100, max_turns: 10, used: { tokens: 50, turns: 9 } }), 0.9);
  assert.equal(budgetShare({ max_tokens: 0, used: {} }), 1);
  assert.equal(budgetShare({ max_tokens: null, used: { tokens: 3 } }), null);
});

test("a private channel is seen by who is in it, and nothing by who was deactivated", () => {
  const inside = new Set(["in"]);
  assert.equal(canSee({ id: "in" }, { private: true }, inside), true);
  assert.equal(canSee({ id: "out" }, { private: true }, inside), false);
  assert.equal(canSee({ id: "out" }, { private: false }, inside), true);
  assert.equal(canSee({ id: "out" }, undefined, inside), true);
  assert.equal(canSee({ id: "in", active: false }, { private: true }, inside), false);
});
