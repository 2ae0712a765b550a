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

test("words that are withdrawn go at once while nobody looks, and what else waits goes on waiting", () => {
  const chain = { at: 1, thread_id: "t", channel_id: "c", workspace_id: "w" };
  const of = (lsn, kind, payload = {}) => ({ lsn, kind, payload: { message_id: "m", $chain: chain, attribution: {}, ...payload } });
  const said = (body) => ({ body, content: [], metadata: {}, withdrawn: false });
  for (const halt of ["pause", "hide"]) {
    const store = createStore({ member_id: "me", workspace_id: "w" });
    store.put("thread", { id: "t", title: "Title 0" }, 0);
    store.put("message", { id: "m", lsn: 1, ...said("words"), thread_id: "t" }, 1);
    store.put("gate", { id: "g", message_id: "m", question: "words" }, 1);
    store[halt](true);
    const drawn = [];
    store.watch(({ dirty, events }) => drawn.push([...dirty].includes("gate/g"), ...events.map(({ kind }) => kind)));
    const edited = { ...of(3, "MessageEdited", { edit: 1 }), message: said("words") };
    const later = { ...of(4, "MessagePosted", { message_id: "n", author_id: "me" }), message: said("kept") };
    store.receive([event(2), edited, later, of(5, "MessageTombstoned")]);
    const all = () => JSON.stringify([store.all("message"), store.all("gate"), store.events(), edited.message]);
    assert.deepEqual([all().includes("words"), drawn], [false, [true, "MessageTombstoned"]], halt);
    assert.deepEqual([store.waiting(), store.lsn(), store.get("thread", "t").title], [4, 0, "Title 0"]);
    store[halt](false);
    assert.deepEqual([store.get("thread", "t").title, store.get("message", "n").body, store.lsn()], ["Title 2", "kept", 5]);
    assert.deepEqual([all().includes("words"), store.get("message", "m").withdrawn], [false, true]);
    store.close();
  }
});
