// What is known follows from events as the server itself has answered: whatever a step changed, folding its events ends
// as a read after it, or says that it has to be read.

import assert from "node:assert/strict";
import { test } from "node:test";

import { KINDS_HANDLED, applyAnswer, applyEvents, newWorld } from "../../../svc-http/ui/pure/merge.js";
import { recorded } from "./data/read.js";
import { bare, events, me, states, story } from "./data/states.js";

function readAt({ lsn, now }) {
  const world = newWorld(me);
  for (const [kind, known] of Object.entries(now)) {
    // Lists of obstacles are read again whenever something may have changed them.
    if (kind !== "deferred") applyAnswer(world, kind, Object.values(known), lsn);
  }
  world.lsn = lsn;
  return world;
}

/** Times of an event and of what it did are the same here, but for those of a letter that is settled. */
function check(world, { lsn, now }, from) {
  for (const [kind, known] of Object.entries(world.kinds)) {
    for (const [id, entity] of known) {
      if (entity.stale || ["alarm", "assigned", "closing", "context", "deferred"].includes(kind)) continue;
      const wanted = now[kind]?.[id];
      const told = `${kind} ${id} read at ${from}, then folded to ${lsn}`;
      // Letters that are settled are in no list.
      if (kind === "dead_letter" && entity.settled_at !== null) assert.equal(wanted, undefined, told);
      else assert.deepEqual(bare(entity), wanted, told);
    }
  }
  for (const kind of ["thread", "message", "member", "channel", "gate", "review", "pause", "vote"]) {
    const missing = Object.keys(now[kind] ?? {}).filter((id) => !world.kinds[kind]?.has(id));
    assert.deepEqual(missing, [], `${kind} read at ${from}, then folded to ${lsn}`);
  }
}

test("from every step on, events lead to what a read of every later step has", () => {
  const all = states();
  all.forEach((begun, at) => {
    const world = readAt(begun);
    for (const later of all.slice(at)) {
      applyEvents(
        world,
        events.filter(({ lsn }) => lsn <= later.lsn),
      );
      check(world, later, begun.lsn);
    }
  });
});

test("from nothing, events alone make what they carry", () => {
  const world = newWorld(me);
  for (const later of states()) {
    applyEvents(
      world,
      events.filter(({ lsn }) => lsn <= later.lsn),
    );
    check(world, later, 0);
  }
});

test("what is stale says so for a reason: the rest of a task is patched", () => {
  const all = states();
  const stale = {};
  all.slice(0, -1).forEach((begun, at) => {
    const world = readAt(begun);
    const step = story.steps[at + 1];
    applyEvents(
      world,
      events.filter(({ lsn }) => lsn <= step.lsn),
    );
    const isStale = [...(world.kinds.thread ?? new Map()).values()].some((thread) => thread.stale);
    if (isStale) (stale[step.op] ??= []).push(step.lsn);
  });
  const expected = [
    "set_thread_budget",
    "report_usage",
    "set_thread_result",
    "transition_thread",
    "remove_thread_dependency",
    "cancel_thread",
    "create_thread",
  ];
  assert.deepEqual(
    Object.keys(stale).filter((op) => !expected.includes(op)),
    [],
  );
});

test("every kind of event that there is has a case, and no other", () => {
  const kinds = Object.keys(recorded("../../../golden/events")).map((name) => name.replace(/^svc\.event\.|\/\d+$/g, ""));
  assert.deepEqual([...KINDS_HANDLED].sort(), [...kinds].sort());
});
