// What waits while nobody looks, and what becomes of too much of it.

import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.requestAnimationFrame = (draw) => setTimeout(draw, 0);
globalThis.cancelAnimationFrame = clearTimeout;

const { ALL, createStore } = await import("../../../svc-http/ui/state/store.js");

const event = (lsn) => {
  const chain = { at: 1, thread_id: "t", channel_id: "c", workspace_id: "w" };
  return { lsn, kind: "ThreadUpdated", payload: { title: `Title ${lsn}`, $chain: chain, attribution: {} } };
};

/** A store with one task, nobody looking at it, and so many events since. */
function hiddenOver(count) {
  const store = createStore({ member_id: "me", workspace_id: "w" });
  const seen = { events: 0, lists: new Set() };
  store.put("thread", { id: "t", title: "Title 0" }, 0);
  store.watch(({ events, lists }) => {
    seen.events += events.length;
    for (const name of lists) seen.lists.add(name);
  });
  store.hide(true);
  for (let lsn = 1; lsn <= count; lsn += 1) store.receive([event(lsn)]);
  return { store, seen };
}

test("what waited is folded in when somebody looks", () => {
  const { store, seen } = hiddenOver(2_000);
  assert.equal(store.waiting(), 2_000);
  store.hide(false);
  assert.deepEqual([store.get("thread", "t").title, store.get("thread", "t").stale], ["Title 2000", false]);
  assert.deepEqual([seen.events, seen.lists.has(ALL), store.waiting()], [2_000, false, 0]);
  store.close();
});

test("what is too much to wait is counted and not kept, and all is read anew when somebody looks", () => {
  const { store, seen } = hiddenOver(4_500);
  assert.equal(store.waiting(), 4_500);
  store.reach(4_500);
  assert.equal(store.lsn(), 0);
  store.hide(false);
  assert.deepEqual([store.lsn(), store.waiting()], [4_500, 0]);
  assert.deepEqual([store.get("thread", "t").stale, seen.lists.has(ALL)], [true, true]);
  assert.ok(seen.events < 2_000, `${seen.events}`);
  store.close();
});
