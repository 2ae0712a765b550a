// What is shown and not known is read: one read of a thing at a time, and no answer undoes a newer one.

import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.requestAnimationFrame = (draw) => setTimeout(draw, 0);
globalThis.cancelAnimationFrame = clearTimeout;

const { Problem } = await import("../../../svc-http/ui/net/ask.js");
const { createReads } = await import("../../../svc-http/ui/state/reads.js");
const { createStore } = await import("../../../svc-http/ui/state/store.js");

const turn = async () => {
  for (let time = 0; time < 20; time += 1) await new Promise(setImmediate);
};

/** Reads over a service whose answers are given by hand, with clocks that are moved by hand. */
function reading(context) {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  let [passed, onWall] = [0, 10_000_000];
  context.mock.method(performance, "now", () => passed);
  context.mock.method(Date, "now", () => onWall + passed);
  const store = createStore({ member_id: "me", workspace_id: "w" });
  const asked = [];
  const ask = (op, input) => new Promise((answer, refuse) => asked.push({ op, input, answer, refuse }));
  const reads = createReads({ store, ask, lacks: () => null });
  const pass = async (ms) => {
    await turn();
    passed += ms;
    context.mock.timers.tick(ms);
    await turn();
  };
  store.reach(10);
  const setClock = (by) => (onWall += by);
  return { store, reads, asked, pass, setClock };
}

const rows = (items, lsn, next_cursor = null) => ({ body: { items, next_cursor }, lsn });
const missing = new Problem({ code: "not-found", status: 404, detail: "", operation: "get_thread" });
const waits = { thread_id: "t", obstacles: [] };

test("a list that is being read is read again after it, and not beside it", async (context) => {
  const { store, reads, asked, pass } = reading(context);
  reads.wish().set(["list/deferred"]);
  await pass(3_000);
  reads.again("list/deferred");
  await pass(3_000);
  assert.equal(asked.length, 1);
  asked[0].answer(rows([waits], 10));
  await pass(3_000);
  assert.equal(asked.length, 2);
  asked[1].answer(rows([], 11));
  await pass(3_000);
  assert.deepEqual([store.all("deferred"), asked.length], [[], 2]);
});

test("an answer from before a gap brings no row back", async (context) => {
  const { store, reads, asked, pass } = reading(context);
  reads.wish().set(["list/deferred"]);
  await pass(3_000);
  asked[0].answer(rows([], 10));
  await pass(3_000);
  reads.again("list/deferred");
  await pass(3_000);
  store.restart(20);
  asked[1].answer(rows([waits], 12));
  await pass(100);
  assert.deepEqual(store.all("deferred"), []);
  await pass(3_000);
  asked[2].answer(rows([{ ...waits, thread_id: "other" }], 20));
  await pass(100);
  assert.deepEqual(store.all("deferred").map(({ id }) => id), ["other"]);
});

test("what is not among the newest any more is no more, and what is older stays", async (context) => {
  const { store, reads, asked, pass } = reading(context);
  reads.wish().set(["list/inbox"]);
  await pass(3_000);
  asked[0].answer(rows([9, 7, 5, 3].map((lsn) => ({ lsn })), 10));
  await pass(3_000);
  reads.again("list/inbox");
  await pass(3_000);
  const many = Array.from({ length: 499 }, (_, at) => ({ lsn: 600 - at }));
  asked[1].answer(rows([...many, { lsn: 5 }], 700, "more"));
  await pass(100);
  assert.deepEqual(["9", "7", "5", "3"].filter((id) => store.get("inbox", id)), ["5", "3"]);
});

test("what was put in while a read found nothing stays", async (context) => {
  const { store, reads, asked, pass } = reading(context);
  reads.wish().set(["thread/t", "thread/gone"]);
  await pass(3_000);
  store.put("thread", { id: "t" }, 12);
  for (const { refuse } of asked) refuse(missing);
  await pass(100);
  assert.ok(store.get("thread", "t"));
  assert.deepEqual(["t", "gone"].map((id) => reads.standing(`thread/${id}`).state), ["known", "missing"]);
});

test("where all is read anew, what was missing is asked for again", async (context) => {
  const { store, reads, asked, pass } = reading(context);
  reads.wish().set(["thread/t"]);
  await pass(3_000);
  asked[0].refuse(missing);
  await pass(3_000);
  assert.equal(asked.length, 1);
  store.restart(12);
  await pass(3_000);
  assert.deepEqual(asked.map(({ input }) => input), [{ thread_id: "t" }, { thread_id: "t" }]);
});

test("a clock that is set back stops no read", async (context) => {
  const { reads, asked, pass, setClock } = reading(context);
  reads.wish().set(["list/deferred", "thread/t"]);
  await pass(0);
  for (const { op, answer } of asked) answer(op === "get_thread" ? { body: { id: "t" }, lsn: 10 } : rows([], 10));
  await pass(2_000);
  setClock(-3_600_000);
  reads.again("list/deferred");
  reads.again("thread/t");
  await pass(0);
  assert.deepEqual(asked.slice(2).map(({ op }) => op), ["get_thread", "list_deferred_threads"]);
});

test("what waits after failures is read at once when the service is heard again, and once", async (context) => {
  const { store, reads, asked, pass } = reading(context);
  reads.wish().set(["thread/t"]);
  await pass(0);
  for (const ms of [2_000, 4_000, 8_000]) {
    asked.at(-1).refuse(new Problem({ code: "unreachable", status: 0, detail: "", operation: "get_thread" }));
    await pass(ms);
  }
  asked.at(-1).refuse(new Problem({ code: "unreachable", status: 0, detail: "", operation: "get_thread" }));
  await pass(1_000);
  assert.deepEqual([asked.length, reads.trouble()?.code], [4, "unreachable"]);
  store.touch(["live/heard"]);
  await pass(1);
  assert.equal(asked.length, 5);
  asked[4].answer({ body: { id: "t" }, lsn: 10 });
  await pass(60_000);
  assert.deepEqual([asked.length, reads.trouble()], [5, null]);
});

test("after a gap all is read again that can be listed", async (context) => {
  const { store, reads, asked, pass } = reading(context);
  const { LISTINGS } = await import("../../../svc-http/ui/state/entities.js");
  const names = Object.keys(LISTINGS);
  assert.ok(names.includes("counts") && names.includes("preferences"));
  const seen = new Set();
  store.watch(({ lists }) => lists.forEach((name) => seen.add(name)));
  reads.wish().set(["list/counts", "list/preferences"]);
  await pass(0);
  for (const { answer, op } of asked) answer({ body: op === "get_workspace_occupancy" ? { threads: {} } : {}, lsn: 10 });
  await pass(3_000);
  store.restart(20);
  await pass(3_000);
  assert.deepEqual(asked.slice(2).map(({ op }) => op).sort(), ["get_notification_preferences", "get_workspace_occupancy"]);
  assert.deepEqual(names.filter((name) => !seen.has(name)), []);
});
