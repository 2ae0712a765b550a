// However answers and events are mixed, late or twice, what is known ends as a fresh read.
//
// The answers are those that a server has given at each step of a story, delivered at any time after any of its events;
// what is stale at the end is read once.

import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import {
  applyAnswer,
  applyEvents,
  applyMissing,
  entity,
  forget,
  newWorld,
  position,
  restart,
} from "../../../svc-http/ui/pure/merge.js";
import { bare, events, me, states } from "./data/states.js";

const all = states();
const last = all[all.length - 1];
const KINDS = [
  "thread",
  "message",
  "member",
  "channel",
  "gate",
  "review",
  "vote",
  "pause",
  "dependencies",
  "budget",
  "reviewers",
];
/** What events make by themselves, so that nothing has to be read to know that it is there. */
const MADE = ["thread", "message", "gate", "review", "vote", "dependencies"];

const step = fc.nat(all.length - 1);
const kind = fc.constantFrom(...KINDS);
const deed = fc.oneof(
  { weight: 6, arbitrary: fc.record({ does: fc.constant("events"), count: fc.integer({ min: 1, max: 12 }) }) },
  // The LSN that an answer names may be below what it was read at, never above.
  { weight: 5, arbitrary: fc.record({ does: fc.constant("read"), kind, step, at: fc.nat(50), below: fc.nat(3) }) },
  { weight: 3, arbitrary: fc.record({ does: fc.constant("page"), kind, step, below: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant("again"), count: fc.integer({ min: 1, max: 12 }) }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant("forget"), kind, at: fc.nat(50) }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant("restart"), step }) },
);

/** Does what was drawn, and each time looks; returns whether something may not be known that events had made. */
function run(deeds, look = () => {}) {
  const world = newWorld(me);
  let [seen, lost] = [0, false];
  for (const deed of deeds) {
    if (deed.does === "events") {
      applyEvents(world, events.slice(seen, seen + deed.count));
      seen = Math.min(events.length, seen + deed.count);
    } else if (deed.does === "again") {
      applyEvents(world, events.slice(Math.max(0, seen - deed.count), seen));
    } else if (deed.does === "restart") {
      const { lsn } = all[deed.step];
      restart(world, lsn);
      seen = Math.max(seen, events.findIndex((event) => event.lsn > lsn) >>> 0);
      seen = Math.min(seen, events.length);
      lost = true;
    } else if (deed.does === "forget") {
      const ids = [...(world.kinds[deed.kind]?.keys() ?? [])];
      if (ids.length) forget(world, deed.kind, ids[deed.at % ids.length]);
      lost = true;
    } else {
      answer(world, deed);
    }
    look(world);
  }
  applyEvents(world, events.slice(seen));
  position(world, last.lsn);
  return { world, lost };
}

function answer(world, { does, kind, step, at, below }) {
  const { now } = all[step];
  const lsn = Math.max(step === 0 ? 0 : all[step - 1].lsn, all[step].lsn - below);
  const rows = Object.values(now[kind] ?? {});
  if (does === "page") applyAnswer(world, kind, rows, lsn);
  else if (rows.length) applyAnswer(world, kind, rows[at % rows.length], lsn);
}

function readWhatIsStale(world) {
  for (const [kind, known] of Object.entries(world.kinds)) {
    for (const [id, { stale }] of known) {
      if (!stale) continue;
      const fields = last.now[kind]?.[id];
      if (fields) applyAnswer(world, kind, fields, last.lsn);
      else applyMissing(world, kind, id, last.lsn);
    }
  }
}

test("any interleaving of answers and events ends as a fresh read", () => {
  fc.assert(
    fc.property(fc.array(deed, { maxLength: 40 }), (deeds) => {
      const { world, lost } = run(deeds);
      readWhatIsStale(world);
      for (const kind of KINDS) {
        for (const [id, known] of world.kinds[kind] ?? []) {
          assert.equal(known.stale, false, `${kind} ${id}`);
          assert.deepEqual(bare(known), last.now[kind]?.[id], `${kind} ${id}`);
        }
      }
      for (const kind of lost ? [] : MADE) {
        for (const id of Object.keys(last.now[kind] ?? {})) assert.ok(entity(world, kind, id), `${kind} ${id}`);
      }
    }),
    { numRuns: Math.min(Number(process.env.SVC_TEST_INPUTS ?? 2000), 20_000) },
  );
});

const exactly = deed.map((drawn) => ({ ...drawn, below: 0 }));

test("at every time, what is not stale is as a read was then, and never goes back", () => {
  fc.assert(
    fc.property(fc.array(exactly, { maxLength: 25 }), (deeds) => {
      const before = new Map();
      run(deeds, (world) => {
        for (const kind of KINDS) {
          for (const [id, known] of world.kinds[kind] ?? []) {
            const key = `${kind}/${id}`;
            assert.ok(known.of >= (before.get(key) ?? 0), `${key} went back to ${known.of}`);
            before.set(key, known.of);
            // Events of one change come one by one; after the last of them there was a read.
            const then = all.find(({ lsn }) => lsn === Math.max(known.of, world.lsn));
            if (then && !known.stale) assert.deepEqual(bare(known), then.now[kind]?.[id], `${key} at ${then.lsn}`);
          }
        }
        for (const deed of deeds) if (deed.does === "forget") before.clear();
      });
    }),
    { numRuns: Math.min(Number(process.env.SVC_TEST_INPUTS ?? 1000), 10_000) },
  );
});
