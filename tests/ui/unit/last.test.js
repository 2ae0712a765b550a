// What each member did last is told of the events that were looked at, in whatever order they came.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createLast } from "../../../svc-http/ui/state/last.js";

const event = (lsn, actor, subject = actor) => ({
  lsn,
  kind: "ThreadUpdated",
  payload: { attribution: { actor_id: actor, subject_id: subject }, $chain: { at: lsn } },
});

/** A store and a server with a log, of which some is kept already. */
function setting({ log, head = log.at(-1).lsn, floor = 1, kept = [] }) {
  const asked = [];
  let index = () => {};
  const store = {
    events: () => kept,
    index(given) {
      const before = index;
      index = (changes) => (before(changes), given(changes));
      return () => {};
    },
    touch: () => {},
  };
  const ask = async (op) => (asked.push({ op }), { body: { head: { lsn: head }, floor }, lsn: head });
  const reads = {
    async pages(op, input) {
      asked.push({ op, ...input });
      return { body: { items: log.filter(({ lsn }) => lsn > input.after_id) }, lsn: head };
    },
  };
  const last = createLast({ store, ask, reads });
  const changed = (events, lists = []) => index({ events, lists: new Set(lists), dirty: new Set() });
  return { last, asked, changed };
}

const settled = () => new Promise((resume) => setTimeout(resume, 5));
const lsns = (events) => events.map(({ lsn }) => lsn);

test("what is read and what comes is one list, newest first", async () => {
  const { last, changed } = setting({
    log: [event(1, "ada"), event(2, "bob"), event(3, "ada")],
    kept: [event(3, "ada")],
  });
  changed([event(4, "ada"), event(5, null)]);
  assert.equal(last.from(), null);
  await settled();
  assert.deepEqual(lsns(last.of("ada")), [4, 3, 1]);
  assert.deepEqual(lsns(last.of("bob")), [2]);
  assert.deepEqual(last.of("nobody"), []);
  assert.equal(last.from(), 1);
});

test("what is done for another is done by both", async () => {
  const { last } = setting({ log: [event(1, "ada", "bob")] });
  await settled();
  assert.deepEqual([lsns(last.of("ada")), lsns(last.of("bob"))], [[1], [1]]);
});

test("only the end of a long log is looked at, and nothing before its floor", async () => {
  const long = setting({ log: [event(9_000, "ada")], head: 9_000 });
  await settled();
  assert.deepEqual(long.asked.at(-1), { op: "list_events", after_id: 7_000 });
  assert.equal(long.last.from(), 7_001);
  const pruned = setting({ log: [event(9_000, "ada")], head: 9_000, floor: 8_500 });
  await settled();
  assert.deepEqual(pruned.asked.at(-1), { op: "list_events", after_id: 8_499 });
});

test("after a gap the end is looked at again", async () => {
  const { last, asked, changed } = setting({ log: [event(1, "ada")] });
  await settled();
  const before = asked.length;
  changed([], ["last"]);
  await settled();
  assert.ok(asked.length > before);
  assert.deepEqual(lsns(last.of("ada")), [1]);
});

test("of one that does much only the latest are kept", async () => {
  const log = Array.from({ length: 100 }, (_, at) => event(at + 1, "ada"));
  const { last } = setting({ log });
  await settled();
  assert.equal(last.of("ada").length, 20);
  assert.equal(last.of("ada")[0].lsn, 100);
});

test("what could not be read is tried for as long as it takes, with pauses that have an end", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const turn = async () => {
    for (let time = 0; time < 20; time += 1) await new Promise(setImmediate);
  };
  let [times, isAway] = [0, true];
  /** @type {Set<(changes: any) => void>} */
  const watchers = new Set();
  const store = { events: () => [], index: (one) => (watchers.add(one), () => watchers.delete(one)), touch: () => {} };
  async function ask() {
    times += 1;
    if (isAway) throw Object.assign(new Error("away"), { status: 0 });
    return { body: { head: { lsn: 1 }, floor: 1 }, lsn: 1 };
  }
  const last = createLast({ store, ask, reads: { pages: async () => ({ body: { items: [] }, lsn: 1 }) } });
  const pass = async (ms) => (await turn(), context.mock.timers.tick(ms), await turn(), times);
  await pass(0);
  for (let round = 0; round < 10; round += 1) assert.equal(await pass(30_000), 2 + round);
  isAway = false;
  for (const watcher of watchers) watcher({ events: [], lists: new Set(), dirty: new Set(["live/heard"]) });
  await turn();
  assert.deepEqual([times, last.from()], [12, 1]);
  assert.equal(await pass(60_000), 12);
  last.close();
  assert.equal(watchers.size, 0);
});
