// Lanes, what needs me, and in which order.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import {
  LANES,
  canAnswer,
  compareInLane,
  granting,
  isLapsed,
  isUnacknowledged,
  laneFor,
  laneOf,
  needsMe,
} from "../../../svc-http/ui/pure/lanes.js";
import { budgetShare, rankNow } from "../../../svc-http/ui/pure/rank.js";

const me = { member_id: "me", kind: "human", mayGrant: true };
const free = {
  ...{ id: "t", channel_id: "c", parent_id: null, title: "T", state: "open", priority: 0, required_skills: [], footprint: null },
  ...{ blocked: 0, has_result: false, exhausted: false, dead: false, owner_id: "x", assignee_id: null, claim_lease_id: null },
  ...{ assignment_expires_at: null, acknowledged_at: null, cancelled: false, created_by: "x", lsn: 1 },
  created_at: "2026-01-01T00:00:00.000000Z",
};
const held = { assignee_id: "a", claim_lease_id: "l", assignment_expires_at: "2026-01-01T01:00:00Z" };
const gate = {
  ...{ id: "g", thread_id: "t", state: "pending", needs_person: false, requested_by: "a", expires_at: null },
  requested_at: "2026-01-02T00:00:00Z",
};
const overlap = { reason: "overlap", item: null, holder: "a", lease_expires_at: null };

test("each thread stands in the first lane that holds", () => {
  const table = [
    [{}, {}, "ready"],
    [held, {}, "running"],
    [{ ...held, acknowledged_at: "x" }, {}, "running"],
    [{ ...held, blocked: 1 }, {}, "running"],
    [{ blocked: 1 }, {}, "blocked"],
    [{ exhausted: true }, {}, "blocked"],
    [{ dead: true }, {}, "blocked"],
    [{ dead: true, owner_id: "me" }, {}, "needs-you"],
    [{ dead: true, owner_id: null }, {}, "needs-you"],
    [{}, { obstacles: [overlap] }, "blocked"],
    [{}, { obstacles: [] }, "ready"],
    [{ state: "in_review" }, {}, "in-review"],
    [{ state: "in_review", ...held }, {}, "in-review"],
    [{ has_result: true }, {}, "in-review"],
    [{ has_result: true, blocked: 1 }, {}, "in-review"],
    [{ state: "closed" }, {}, "done"],
    [{ state: "archived" }, {}, "done"],
    [{ state: "closed", blocked: 1, exhausted: true }, {}, "done"],
    [{ state: "in_review" }, { awaited: true }, "needs-you"],
    [{ state: "closed" }, { awaited: true }, "done"],
    [held, { gates: [gate] }, "needs-you"],
    [{ state: "closed" }, { gates: [gate] }, "needs-you"],
    [held, { gates: [{ ...gate, state: "accepted" }] }, "running"],
    [held, { gates: [{ ...gate, requested_by: "me" }] }, "running"],
  ];
  for (const [fields, about, lane] of table) {
    assert.equal(laneFor({ ...free, ...fields }, { me, ...about }), lane, JSON.stringify([fields, about]));
  }
  const lane = (my) => laneFor({ ...free, ...held }, { me: { ...me, mayGrant: false, ...my }, gates: [gate] });
  assert.deepEqual([lane({}), lane({ kind: "agent" })], ["needs-you", "running"]);
  assert.deepEqual([...new Set(table.map(([, , lane]) => lane))].sort(), [...LANES].sort());
  const needs = { gate: false, review: false, dead: false, unacknowledged: true };
  assert.equal(laneOf({ ...free, state: "closed" }, { needs }), "needs-you");
});

test("who may answer an approval, and why not", () => {
  const table = [
    [{}, {}, "yes"],
    [{ state: "expired" }, {}, "over"],
    [{ requested_by: "me" }, {}, "own"],
    [{ needs_person: true }, {}, "yes"],
    [{ needs_person: true }, { kind: "agent" }, "needs-person"],
    [{}, { mayGrant: false }, "capability"],
  ];
  for (const [fields, my, wanted] of table) assert.equal(canAnswer({ ...gate, ...fields }, { ...me, ...my }), wanted);
});

test("what accepts an approval is known by the table", () => {
  const table = readFileSync(new URL("../../golden/operations.txt", import.meta.url), "utf8");
  const needs = (op) =>
    table
      .split("\n")
      .find((row) => row.startsWith(`${op} |`))
      .split(" | ")[4];
  assert.equal(granting(needs("approval_decide"), needs("request_approval")), "approval:grant");
});

test("an alarm holds as long as its claim does", () => {
  const late = { id: "t", reason: "unacknowledged", claim_lease_id: "l", member_id: "a", owner_id: "x", at: "", lsn: 1 };
  assert.ok(isUnacknowledged({ ...free, ...held }, late));
  assert.ok(isUnacknowledged({ ...free, ...held }, { ...late, claim_lease_id: null }));
  assert.ok(!isUnacknowledged({ ...free, ...held, acknowledged_at: "x" }, late));
  assert.ok(!isUnacknowledged({ ...free, ...held, claim_lease_id: "k" }, late));
  assert.ok(!isUnacknowledged(free, late));
  assert.ok(!isUnacknowledged({ ...free, ...held }, undefined));
  const lapsed = { ...late, reason: "lapsed" };
  assert.ok(isLapsed(free, lapsed));
  for (const fields of [held, { state: "closed" }, { has_result: true }, { dead: true }]) {
    assert.ok(!isLapsed({ ...free, ...fields }, lapsed));
  }
  const of = (owner_id) => needsMe({ ...free, ...held, owner_id }, { me, gates: [], awaited: false, alarm: late }).unacknowledged;
  assert.deepEqual([of("me"), of("x"), of(null)], [true, false, true]);
});

test("in a lane the urgent stands first, what runs by its end, what is done by its time", () => {
  const order = (lane, threads, closedAt) => [...threads].sort(compareInLane(lane, closedAt)).map(({ id }) => id);
  const three = [
    { ...free, id: "b", priority: 1, lsn: 2, of: 7, assignment_expires_at: "2026-01-01T03:00:00Z" },
    { ...free, id: "a", priority: 5, lsn: 3, of: 8, assignment_expires_at: "2026-01-01T02:00:00Z" },
    { ...free, id: "c", priority: 1, lsn: 1, of: 9, assignment_expires_at: null },
  ];
  assert.deepEqual(order("ready", three), ["a", "c", "b"]);
  assert.deepEqual(order("running", three), ["a", "b", "c"]);
  const closed = { b: 6, c: 5 };
  assert.deepEqual(order("done", three, (id) => closed[id]), ["b", "c", "a"]);
  assert.deepEqual(order("done", three), ["a", "b", "c"], "what nobody knows of is told by when it was made");
});

const now = Date.parse("2026-01-10T00:00:00Z");
const at = (day) => `2026-01-0${day}T00:00:00.000000Z`;
const nothing = {
  ...{ me, now, gates: [], letters: [], alarms: [], awaited: [], reviews: [], budgets: [], inbox: [] },
  threads: new Map(),
};

test("what needs me is ranked, and within a rank the older stands first", () => {
  const mine = (id, fields) => [id, { ...free, id, owner_id: "me", ...fields }];
  const critical = { id: "f", severity: "critical", resolution: null };
  const needs = rankNow({
    ...nothing,
    threads: new Map([mine("t1"), mine("t2", held), mine("t3", { dead: true }), mine("t4", { created_at: at(3) }), mine("t5")]),
    gates: [
      { ...gate, id: "g1", requested_at: at(9) },
      { ...gate, id: "g2", requested_at: at(8) },
      { ...gate, id: "over", expires_at: at(9) },
    ],
    alarms: [
      { id: "t1", reason: "lapsed", claim_lease_id: null, member_id: null, owner_id: null, at: at(5), lsn: 1 },
      { id: "t2", reason: "unacknowledged", claim_lease_id: "l", member_id: "a", owner_id: "me", at: at(1), lsn: 1 },
    ],
    letters: [
      { id: "d", thread_id: "t3", holder: "a", failed_at: at(4), settled_at: null },
      { id: "old", thread_id: "t3", holder: "a", failed_at: at(1), settled_at: at(2) },
    ],
    awaited: ["t4", "unknown"],
    caused: () => Date.parse(at(3)),
    reviews: [
      { id: "r", thread_id: "t5", submitted_at: at(2), findings: [critical, { ...critical, id: "m", severity: "minor" }] },
      { id: "r2", thread_id: "t5", submitted_at: at(1), findings: [{ ...critical, id: "done", resolution: "fixed" }] },
    ],
    budgets: [
      { thread_id: "t5", max_tokens: 100, used: { tokens: 85 } },
      { thread_id: "t4", max_tokens: 100, used: { tokens: 10 } },
    ],
    inbox: [
      { lsn: 7, reason: "mention", read: false, thread_id: "t1", message_id: "m", at: at(2) },
      { lsn: 6, reason: "mention", read: true, thread_id: "t1", message_id: "m", at: at(1) },
      { lsn: 5, reason: "claim_expired", read: false, thread_id: "t1", message_id: null, at: at(1) },
    ],
  });
  const keys = [
    "gate/g2",
    "gate/g1",
    "dead/d",
    "lapsed/t1",
    "finding/f",
    "review/t4",
    "unacknowledged/t2",
    "budget/t5",
    "mention/7",
  ];
  assert.deepEqual(
    needs.map(({ key }) => key),
    keys,
  );
  assert.ok(needs.every(({ op, since }) => op && since > 0));
});

test("what is of others needs them, not me", () => {
  const threads = new Map([["t", { ...free, owner_id: "x" }]]);
  const alarm = { id: "t", reason: "lapsed", claim_lease_id: null, member_id: "a", owner_id: "x", at: at(5), lsn: 1 };
  const letter = { id: "d", thread_id: "t", holder: "a", failed_at: at(4), settled_at: null };
  const budget = { thread_id: "t", max_tokens: 1, used: { tokens: 1 } };
  const review = {
    id: "r",
    thread_id: "t",
    submitted_at: at(2),
    findings: [{ id: "f", severity: "critical", resolution: null }],
  };
  assert.deepEqual(
    rankNow({ ...nothing, threads, alarms: [alarm], letters: [letter], budgets: [budget], reviews: [review] }),
    [],
  );
  assert.equal(rankNow({ ...nothing, threads, alarms: [{ ...alarm, member_id: "me" }] }).length, 1);
});

test("of a budget the limit that is nearest counts", () => {
  const used = { tokens: 50, usd_micros: 90, turns: 0, wall_secs: 3, attempts: 0 };
  assert.equal(budgetShare({ max_tokens: 100, max_usd_micros: 100, used }), 0.9);
  assert.equal(budgetShare({ max_tokens: null, used }), null);
  assert.equal(budgetShare({ max_attempts: 0, used }), 1);
});
