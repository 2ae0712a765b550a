// What needs one is the same by what has happened and by what is read of it later.

import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.requestAnimationFrame = setImmediate;
globalThis.cancelAnimationFrame = clearImmediate;

const { LISTINGS } = await import("../../../svc-http/ui/state/entities.js");
const { createNeeds } = await import("../../../svc-http/ui/state/needs.js");
const { createStore } = await import("../../../svc-http/ui/state/store.js");

const me = { member_id: "me", workspace_id: "w", kind: "human", mayGrant: false };
const free = { id: "t", state: "open", assignee_id: null, has_result: false, dead: false, owner_id: null };
const event = (lsn, kind, more = {}) => ({
  lsn,
  kind,
  payload: { ...more, $chain: { at: lsn, workspace_id: "w", channel_id: "c", thread_id: "t" } },
});
const assignment = (lsn, reason, to = null, from = null) =>
  event(lsn, "ThreadAssignmentChanged", { reason, assignee_id: to, previous_assignee_id: from, claim_lease_id: null, expires_at: null });

const claimed = assignment(11, "claimed", "a");
const lapsed = [event(12, "ClaimExpired", { member_id: "a", claim_lease_id: "l" }), assignment(13, "expired", null, "a")];
const again = [assignment(14, "claimed", "b"), assignment(15, "released", null, "b")];
const closed = [
  event(14, "ThreadStateChanged", { action: "close", from: "open", to: "closed" }),
  event(15, "ThreadStateChanged", { action: "reopen", from: "closed", to: "open" }),
];

const turn = () => new Promise((resume) => setImmediate(() => setImmediate(resume)));

/** What needs one with these events: as they come, and by lists that are read after them, in both orders. */
async function needsAfter(events, inbox = []) {
  const found = [];
  for (const way of ["come", "read", "read back"]) {
    const store = createStore(me);
    const wish = { set: () => {}, close: () => {} };
    const reads = { wish: () => wish, again: () => {}, standing: () => ({ state: "refused" }) };
    store.reach(10);
    store.put("thread", free, way === "come" ? 10 : 20);
    const needs = createNeeds({ store, reads, me, now: () => 1_000_000, arrived: () => {} });
    if (way === "come") store.receive(events);
    const lists = { assigned: "ThreadAssignmentChanged", closings: "ThreadStateChanged" };
    const read = Object.entries(lists).map(([name, kind]) => () => {
      const { kind: of, rowsOf } = LISTINGS[name];
      store.put(of, rowsOf({ items: events.filter((one) => one.kind === kind) }), 20);
      store.put("list", { id: name }, 20);
    });
    read.push(() => {
      store.put("inbox", inbox, 20);
      store.put("list", { id: "inbox" }, 20);
    });
    if (way === "come") read.splice(0, 2);
    for (const put of way === "read back" ? read.reverse() : read) {
      put();
      await turn();
    }
    // What comes is told after a while, or now.
    store.pause(false);
    found.push(needs.list().map(({ key }) => key).join());
    needs.close();
  }
  return found;
}

test("a claim that lapsed needs one until somebody takes the task up, also where nobody is told", async () => {
  const told = [{ id: "12", lsn: 12, reason: "claim_expired", thread_id: "t", actor_id: null, at: null, read: false }];
  for (const inbox of [[], told]) {
    assert.deepEqual(await needsAfter([claimed, ...lapsed], inbox), Array(3).fill("lapsed/t"));
    assert.deepEqual(await needsAfter([claimed, ...lapsed, ...again], inbox), Array(3).fill(""));
    assert.deepEqual(await needsAfter([claimed, ...lapsed, ...closed], inbox), Array(3).fill(""));
  }
});
