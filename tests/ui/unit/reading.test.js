// What could not be read is read again: after pauses, and at once when the service is heard again.

import assert from "node:assert/strict";
import { test } from "node:test";

import { mayPass } from "../../../svc-http/ui/net/ask.js";
import { createRetry } from "../../../svc-http/ui/state/reading.js";
import { readThreads } from "../../../svc-http/ui/state/threads.js";
import { openTimeline } from "../../../svc-http/ui/state/timeline.js";

const refusal = (status) => Object.assign(new Error("refused"), { status });
const turn = async () => {
  for (let time = 0; time < 20; time += 1) await new Promise(setImmediate);
};

/** A store that keeps nothing, and says what it is told to. */
function telling() {
  const watchers = new Set();
  const index = (watcher) => (watchers.add(watcher), () => watchers.delete(watcher));
  const tell = (key) => watchers.forEach((watcher) => watcher({ dirty: new Set([key]) }));
  return { watchers, tell, store: { index, put: () => {}, events: () => [], get: () => {}, count: () => 0 } };
}

/** A service that refuses once, and then has nothing. */
function refusingOnce(status) {
  const asked = [];
  const ask = async (op) => {
    asked.push(op);
    if (asked.length === 1) throw refusal(status);
    return { body: { items: [], next_cursor: null }, lsn: 1 };
  };
  return { asked, ask };
}

test("what may pass is a failure of the network or the service, too much, or a session that has ended", () => {
  assert.deepEqual([0, 401, 403, 404, 422, 429, 500, 503].filter((status) => mayPass({ status })), [0, 401, 429, 500, 503]);
});

test("the pauses grow, an answer ends them, and being heard again cuts them short", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { store, tell, watchers } = telling();
  let times = 0;
  const retry = createRetry(store, () => (times += 1));
  const after = (ms) => (context.mock.timers.tick(ms), times);
  retry.ended(refusal(0));
  assert.deepEqual([after(1_999), after(1)], [0, 1]);
  retry.ended(refusal(503));
  assert.deepEqual([after(3_999), after(1)], [1, 2]);
  retry.ended(refusal(503));
  tell("thread/t");
  assert.equal(times, 2);
  tell("live/heard");
  assert.deepEqual([times, after(60_000)], [3, 3], "and not once more after the pause");
  for (const end of [undefined, refusal(403)]) {
    retry.ended(end);
    tell("live/heard");
    assert.equal(after(60_000), 3);
  }
  retry.ended(refusal(0));
  retry.close();
  assert.deepEqual([after(60_000), watchers.size], [3, 0]);
});

test("a conversation that could not be read is read again", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { asked, ask } = refusingOnce(0);
  const timeline = openTimeline({ ask, store: telling().store }, "t", () => {});
  await turn();
  assert.equal(timeline.progress.hasFailed, true);
  context.mock.timers.tick(2_000);
  await turn();
  assert.deepEqual([timeline.progress.hasFailed, timeline.progress.isReading, asked.length], [false, false, 4]);
  timeline.close();
});

test("the tasks of the board are read after a session has come back", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { asked, ask } = refusingOnce(401);
  const threads = readThreads({ ask, store: telling().store }, () => {});
  await turn();
  assert.equal(threads.progress.isReading, true);
  context.mock.timers.tick(5_000);
  await turn();
  assert.deepEqual([threads.progress.isReading, threads.progress.problem, asked.length], [false, null, 4]);
  threads.close();
});
