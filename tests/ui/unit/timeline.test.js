// What was said and done in a task: its end is there first, however much there is.

import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.requestAnimationFrame = (draw) => setTimeout(draw, 0);
globalThis.cancelAnimationFrame = clearTimeout;

const { createStore } = await import("../../../svc-http/ui/state/store.js");
const { openTimeline } = await import("../../../svc-http/ui/state/timeline.js");

/** A service with so many messages in a task and no event that is told, which answers as `list_messages` does. */
const talkOf =
  (count) =>
  async (op, { newest_first, limit, cursor }) => {
    if (op === "list_thread_events") return { body: { items: [], next_cursor: null }, lsn: count };
    assert.equal(newest_first, true);
    const from = Number(cursor ?? count + 1) - 1;
    const to = Math.max(1, from - limit + 1);
    const items = [];
    for (let lsn = from; lsn >= to; lsn -= 1) items.push({ id: `m${lsn}`, lsn, thread_id: "t" });
    return { body: { items, next_cursor: to > 1 ? String(to) : null }, lsn: count };
  };

/** Reads all that is read of a talk. */
async function read(count) {
  const store = createStore({ member_id: "me", workspace_id: "w" });
  const timeline = openTimeline({ ask: talkOf(count), store }, "t", () => {});
  for (let turn = 0; turn < 1_000 && timeline.progress.isReading; turn += 1) await new Promise(setImmediate);
  timeline.close();
  return { lsns: timeline.items().map(({ lsn }) => lsn), progress: timeline.progress };
}

test("of a talk that is too long the end is there, and that something is not is known", async () => {
  const short = await read(1_200);
  assert.deepEqual([short.lsns.length, short.lsns[0], short.lsns.at(-1)], [1_200, 1, 1_200]);
  assert.equal(short.progress.isWhole, true);
  const long = await read(12_345);
  assert.deepEqual([long.lsns[0], long.lsns.at(-1)], [2_346, 12_345]);
  assert.equal(long.progress.isWhole, false);
});

test("what was missed while it was read is read once more after that", async () => {
  const store = createStore({ member_id: "me", workspace_id: "w" });
  const answers = [];
  const ask = (op) => new Promise((answer) => answers.push({ op, answer: (items) => answer({ body: { items }, lsn: 9 }) }));
  const timeline = openTimeline({ ask, store }, "t", () => {});
  const settled = () => new Promise(setImmediate);
  timeline.again();
  timeline.again();
  await settled();
  assert.equal(answers.length, 2);
  for (const { answer } of answers.splice(0)) answer([]);
  await settled();
  assert.deepEqual(answers.map(({ op }) => op), ["list_messages", "list_thread_events"]);
  assert.equal(timeline.progress.isReading, true);
  for (const { op, answer } of answers.splice(0)) answer(op === "list_messages" ? [{ id: "m", lsn: 8, thread_id: "t" }] : []);
  await settled();
  assert.deepEqual([timeline.items().map(({ lsn }) => lsn), timeline.progress.isReading, answers.length], [[8], false, 0]);
  timeline.close();
});
