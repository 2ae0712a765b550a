// The worker reads the whole log however its pages are cut, and says what it found, or why it could not.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Problem } from "../../../svc-http/ui/net/ask.js";
import { serve, verifyLog } from "../../../svc-http/ui/worker/verify.js";
import { recorded } from "./data/read.js";

const whole = recorded("whole");
const part = recorded("part");
const pruned = recorded("pruned");

/** A server with this log, whose pages have at most `most` events. */
function server(log, { most = 500, fail = () => null } = {}) {
  const asked = [];
  const ask = async (op, input) => {
    asked.push({ op, ...input });
    const failure = fail(asked);
    if (failure) throw failure;
    if (op === "get_room") return { body: { floor: log.floor, head: log.head }, lsn: 0, at: 0 };
    const after = input.after_lsn ?? input.after_id;
    const items = log.events.filter(({ lsn }) => lsn > after).slice(0, Math.min(most, input.limit));
    const reached = items.length ? items.at(-1).lsn : log.head.lsn;
    return { body: { items, after_lsn: reached, after_id: reached }, lsn: 0, at: 0 };
  };
  return { ask, asked };
}

const start = (log, isWhole) => ({ workspace_id: log.workspace_id, whole: isWhole, pin: null });

test("a log in pages of any size is the same log", async () => {
  for (const most of [1, 7, 500]) {
    const { ask, asked } = server(whole, { most });
    const report = await verifyLog(ask, start(whole, true), () => {});
    assert.deepEqual([report.state, report.checked], ["whole", whole.head.lsn]);
    assert.equal(asked.filter(({ op }) => op === "list_events").length, 0);
  }
});

test("without all of the log, what is seen is read", async () => {
  const { ask } = server(part, { most: 5 });
  const report = await verifyLog(ask, start(part, false), () => {});
  assert.deepEqual([report.state, report.checked], ["part", part.events.length]);
  assert.equal(report.withheld, part.head.lsn - part.events.length);
});

test("a pruned log is read from its floor on", async () => {
  const { ask, asked } = server(pruned);
  assert.equal((await verifyLog(ask, start(pruned, true), () => {})).state, "whole");
  assert.equal(asked[1].after_lsn, pruned.floor - 1);
});

test("two pages are under way at a time, and no more", async () => {
  const long = { ...whole, head: { lsn: 5000, hash: "" }, events: [] };
  let [under, most] = [0, 0];
  const { ask } = server(long);
  const counted = async (op, input) => {
    most = Math.max(most, (under += 1));
    await new Promise((resume) => setTimeout(resume, 1));
    under -= 1;
    return ask(op, input);
  };
  await verifyLog(counted, start(long, false), () => {});
  assert.equal(most, 2);
});

test("a log that is pruned while it is read is read anew, a few times", async () => {
  const gone = new Problem({ code: "must_refetch", status: 409, detail: "", operation: "catch_up_events" });
  const once = server(whole, { fail: (asked) => (asked.length === 2 ? gone : null) });
  assert.equal((await verifyLog(once.ask, start(whole, true), () => {})).state, "whole");
  const ever = server(whole, { fail: (asked) => (asked.at(-1).op === "get_room" ? null : gone) });
  await assert.rejects(
    verifyLog(ever.ask, start(whole, true), () => {}),
    gone,
  );
  assert.equal(ever.asked.filter(({ op }) => op === "get_room").length, 3);
});

test("a break stops the reading, and is not taken for a pruning", async () => {
  const broken = structuredClone(whole);
  broken.events[3].content_hash = "x";
  const { ask, asked } = server(broken, { most: 2 });
  const report = await verifyLog(ask, start(whole, true), () => {});
  assert.deepEqual(report.broken, { lsn: 4, defect: "content" });
  assert.equal(asked.filter(({ op }) => op === "get_room").length, 2);
});

test("a server that answers with nothing ends the reading", async () => {
  const { ask } = server({ ...whole, events: [] });
  assert.deepEqual((await verifyLog(ask, start(whole, true), () => {})).broken, { lsn: 1, defect: "missing" });
});

test("the page is told how it ends, with what to remember", async () => {
  const told = [];
  await serve((one) => told.push(one), server(whole).ask, start(whole, true));
  const { state, checked, head, pin, report } = told.at(-1);
  assert.deepEqual([state, checked, head, report.pinned], ["whole", whole.head.lsn, whole.head.lsn, "new"]);
  assert.deepEqual([pin.lsn, pin.content_hash], [whole.head.lsn, whole.head.hash]);
  const failed = [];
  const down = new Problem({ code: "unreachable", status: 0, detail: "no way", operation: "get_room" });
  await serve((one) => failed.push(one), server(whole, { fail: () => down }).ask, start(whole, true));
  assert.deepEqual(failed, [
    { state: "failed", checked: 0, withheld: 0, upTo: 0, head: 0, problem: { code: "unreachable", detail: "no way" } },
  ]);
  const odd = [];
  await serve(
    (one) => odd.push(one),
    async () => ({ body: {} }),
    start(whole, true),
  );
  assert.deepEqual([odd[0].state, odd[0].problem.code], ["failed", "unreadable"]);
});
