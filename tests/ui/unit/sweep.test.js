// What a page forgets, so that it stays as small as on its first day, and what it keeps.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createSweep } from "../../../svc-http/ui/state/sweep.js";

/** A store with so many of one kind, of which `more` says what each is. */
function storeOf(kind, count, more) {
  const known = new Map();
  for (let of = 1; of <= count; of += 1) known.set(`${of}`, { id: `${of}`, of, ...more(of) });
  return {
    known,
    kinds: () => [kind],
    count: () => known.size,
    all: () => [...known.values()],
    forget: (_, ids) => ids.forEach((id) => known.delete(id)),
  };
}

function swept(store, { isWanted = () => false, isLatest = () => false, isShown = () => true, held = [] } = {}) {
  const sweep = createSweep({ store, isWanted, isLatest, isShown });
  for (const id of held) sweep.hold(id);
  sweep.sweep();
  sweep.close();
  return store.known;
}

test("up to a limit all stays, and beyond it what is oldest goes", () => {
  assert.equal(swept(storeOf("message", 3_000, () => ({ thread_id: "a" }))).size, 3_000);
  const left = swept(storeOf("message", 5_000, () => ({ thread_id: "a" })));
  assert.equal(left.size, 3_000);
  assert.ok(!left.has("2000") && left.has("2001"));
});

test("last words go after other words, and are no more than the limit either", () => {
  const of = (number) => ({ thread_id: `${number}` });
  const some = swept(storeOf("message", 5_000, of), { isLatest: ({ of }) => of <= 1_000 });
  assert.ok(some.has("1") && some.has("1000") && !some.has("1001") && some.size === 3_000);
  const all = swept(storeOf("message", 12_000, of), { isLatest: () => true });
  assert.ok(all.size === 3_000 && all.has("9001") && !all.has("9000"));
});

test("what is wanted, and what an open task has, stays whatever there is", () => {
  const store = storeOf("message", 5_000, (of) => ({ thread_id: of === 2 ? "open" : "other" }));
  const left = swept(store, { isWanted: (key) => key === "message/1", held: ["open"] });
  assert.ok(left.has("1") && left.has("2") && !left.has("3"));
  assert.equal(left.size, 3_000);
});

test("a task that is done goes before one that is not", () => {
  const store = storeOf("thread", 12_000, (of) => ({ state: of > 11_500 ? "closed" : "open" }));
  const left = swept(store);
  assert.equal(left.size, 11_000);
  assert.ok(!left.has("11501") && !left.has("12000") && !left.has("1") && !left.has("500") && left.has("501"));
});

test("of tasks that are known as of the same the oldest goes", () => {
  const store = storeOf("thread", 11_002, (at) => ({ of: 7, lsn: 20_000 - at, state: "open" }));
  const left = swept(store);
  assert.ok(left.size === 11_000 && left.has("1") && left.has("11000") && !left.has("11001") && !left.has("11002"));
});

test("a task that the filter lets through goes last, also one that is done", () => {
  const store = storeOf("thread", 12_500, (of) => ({ state: of > 3_000 ? "closed" : "open" }));
  const left = swept(store, { isShown: (id) => Number(id) > 3_000 });
  assert.ok(left.size === 11_000 && left.has("3001") && left.has("12500") && !left.has("1500") && left.has("1501"));
});
