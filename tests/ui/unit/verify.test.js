// The log that a server wrote is whole; a log in which anything was changed is broken, at the event where it was.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import fc from "fast-check";

import { GENESIS, canonical, finish, newRun, pinOf, take } from "../../../svc-http/ui/pure/verify.js";
import { recorded } from "./data/read.js";

const whole = recorded("whole");
const part = recorded("part");
const pruned = recorded("pruned");
const sha = (text) => `sha256:${createHash("sha256").update(text).digest("hex")}`;

async function verify({ workspace_id, head, floor, events }, { isWhole = true, pin = null } = {}) {
  let run = newRun({ workspace_id, whole: isWhole, floor, head, pin });
  for (let at = 0; at < events.length; at += 7) run = await take(run, events.slice(at, at + 7));
  return finish(run);
}

/** The log with one event changed. */
function changed(log, lsn, change) {
  const copy = structuredClone(log);
  change(
    copy.events.find((event) => event.lsn === lsn),
    copy,
  );
  return copy;
}

/** The log as whoever has it could write it: from an event on, with hashes that fit again. */
function rewritten(log, lsn, change) {
  const copy = changed(log, lsn, ({ payload }) => change(payload));
  let before = null;
  for (const event of copy.events) {
    if (before && event.prev_hash !== before) {
      event.prev_hash = before;
      event.payload.$chain.prev_hash = before;
    }
    event.content_hash = sha(canonical(event.payload));
    before = event.content_hash;
  }
  return copy;
}

test("all logs begin with the hash of their name", () => assert.equal(GENESIS, sha("svc.event-log.genesis/1")));

test("a log as it was written is whole", async () => {
  const report = await verify(whole);
  assert.deepEqual([report.state, report.broken, report.checked, report.withheld], ["whole", null, whole.head.lsn, 0]);
});

/** Each column that is shown, and each member that repeats one. */
const ALTERED = {
  lsn: [(event) => (event.lsn += 0.5), "unreadable"],
  id: [(event) => (event.id += 1), "columns"],
  kind: [(event) => (event.kind = `${event.kind}s`), "columns"],
  $type: [(event) => (event.$type = "svc.event.Other/1"), "type"],
  prev_hash: [(event) => (event.prev_hash = sha("x")), "columns"],
  content_hash: [(event) => (event.content_hash = sha("x")), "content"],
  at: [({ payload }) => (payload.$chain.at += 1), "content"],
  "a word for a time": [({ payload }) => (payload.$chain.at = String(payload.$chain.at)), "unreadable"],
  workspace_id: [({ payload }) => (payload.$chain.workspace_id = "0"), "columns"],
  channel_id: [({ payload }) => (payload.$chain.channel_id = "0"), "content"],
  thread_id: [({ payload }) => (payload.$chain.thread_id = "0"), "content"],
  member_id: [({ payload }) => (payload.$chain.member_id = "0"), "content"],
  attribution: [({ payload }) => (payload.attribution.actor_id = "0"), "content"],
  "another member": [({ payload }) => (payload.extra = 1), "content"],
  "a member first": [({ payload }) => (payload["!"] = 1), "type"],
  "a column more": [({ payload }) => (payload.$chain.more = 1), "columns"],
  "a column less": [({ payload }) => delete payload.$chain.at, "columns"],
  "no payload": [(event) => (event.payload = null), "unreadable"],
};

test("each column that is altered is found where it was", async () => {
  for (const lsn of [1, 2, 40, whole.head.lsn - 1, whole.head.lsn]) {
    for (const [name, [change, defect]] of Object.entries(ALTERED)) {
      const { state, broken } = await verify(changed(whole, lsn, change));
      assert.equal(state, "broken", name);
      assert.deepEqual(broken, { lsn, defect }, `${name} of ${lsn}`);
    }
  }
});

test("one letter of any word of any event is found", async () => {
  const words = fc.record({ at: fc.nat(whole.events.length - 1), letter: fc.nat(5000) });
  await fc.assert(
    fc.asyncProperty(words, async ({ at, letter }) => {
      const { lsn, payload } = whole.events[at];
      const text = canonical(payload);
      const quoted = [...text.matchAll(/[a-z](?=[^"]*"[,}\]])/g)];
      const { index } = quoted[letter % quoted.length];
      const other = text[index] === "x" ? "y" : "x";
      const altered = JSON.parse(text.slice(0, index) + other + text.slice(index + 1));
      const { broken } = await verify(changed(whole, lsn, (event) => (event.payload = altered)));
      assert.equal(broken?.lsn, lsn, text.slice(index - 20, index + 20));
    }),
    { numRuns: 300 },
  );
});

test("what is left out, put in twice, or put elsewhere is found", async () => {
  const without = { ...whole, events: whole.events.filter(({ lsn }) => lsn !== 12) };
  assert.deepEqual((await verify(without)).broken, { lsn: 12, defect: "missing" });
  const twice = { ...whole, events: whole.events.flatMap((event) => (event.lsn === 12 ? [event, event] : [event])) };
  assert.deepEqual((await verify(twice)).broken, { lsn: 12, defect: "stray" });
  const short = { ...whole, events: whole.events.slice(0, -1) };
  assert.deepEqual((await verify(short)).broken, { lsn: whole.head.lsn, defect: "missing" });
  const late = { ...whole, events: whole.events.slice(3) };
  assert.deepEqual((await verify(late)).broken, { lsn: 1, defect: "missing" });
  assert.deepEqual((await verify({ ...whole, events: [] })).broken, { lsn: 1, defect: "missing" });
});

test("a position that is another is found", async () => {
  const moved = (lsn, by) => verify(changed(whole, lsn, (event) => (event.lsn += by)));
  assert.deepEqual((await moved(12, 1)).broken, { lsn: 12, defect: "missing" });
  assert.deepEqual((await moved(12, -1)).broken, { lsn: 11, defect: "stray" });
  assert.deepEqual((await moved(1, -1)).broken, { lsn: 0, defect: "stray" });
  assert.deepEqual((await verify(part, { isWhole: false })).broken, null);
  const seen = changed(part, part.events[4].lsn, (event) => (event.lsn += 1));
  assert.ok((await verify(seen, { isWhole: false })).broken);
});

test("a history that was written anew ends in another head", async () => {
  const forged = rewritten(whole, 20, (payload) => (payload.attribution.actor_id = payload.$chain.workspace_id));
  assert.deepEqual((await verify(forged)).broken, { lsn: whole.head.lsn, defect: "head" });
  // With a head that fits, only what was remembered tells.
  const fitting = { ...forged, head: { lsn: forged.head.lsn, hash: forged.events.at(-1).content_hash } };
  assert.equal((await verify(fitting)).state, "whole");
  const pin = { lsn: 30, content_hash: whole.events[29].content_hash };
  assert.equal((await verify(fitting, { pin })).pinned, "rewritten");
  const earlier = { lsn: 19, content_hash: whole.events[18].content_hash };
  assert.equal((await verify(fitting, { pin: earlier })).pinned, "same");
});

test("a link that was cut, and a time that goes back, are found though the hashes fit", async () => {
  const cut = structuredClone(whole);
  const event = cut.events[19];
  event.prev_hash = event.payload.$chain.prev_hash = sha("x");
  event.content_hash = sha(canonical(event.payload));
  assert.deepEqual((await verify(cut)).broken, { lsn: 20, defect: "link" });
  const first = structuredClone(whole);
  first.events[0].prev_hash = first.events[0].payload.$chain.prev_hash = sha("x");
  first.events[0].content_hash = sha(canonical(first.events[0].payload));
  assert.deepEqual((await verify(first)).broken, { lsn: 1, defect: "link" });
  const back = rewritten(whole, 20, (payload) => (payload.$chain.at = 1));
  assert.deepEqual((await verify(back)).broken, { lsn: 20, defect: "time" });
});

test("a pin is of a head that was proved, and tells what became of it", async () => {
  const report = await verify(whole);
  const pin = pinOf(report, "now");
  assert.deepEqual(pin, { lsn: whole.head.lsn, content_hash: whole.head.hash, at: "now" });
  assert.equal((await verify(whole, { pin })).pinned, "same");
  const older = { ...whole, events: whole.events.slice(0, -5) };
  older.head = { lsn: older.events.at(-1).lsn, hash: older.events.at(-1).content_hash };
  assert.equal((await verify(older, { pin })).pinned, "rolled-back");
  assert.equal((await verify(pruned, { pin: { lsn: 3, content_hash: "" } })).pinned, "pruned");
  assert.equal((await verify(whole)).pinned, "new");
  assert.equal(pinOf(await verify(older, { pin }), "now").lsn, older.head.lsn);
  assert.equal(pinOf(await verify(changed(whole, 4, ALTERED.at[0])), "now"), null);
});

test("of a log that is seen in part, what is withheld is counted, and what is seen is verified", async () => {
  const seen = new Set(part.events.map(({ lsn }) => lsn));
  const hidden = whole.events.filter(({ lsn }) => !seen.has(lsn)).length;
  assert.ok(hidden > 0);
  const report = await verify(part, { isWhole: false });
  assert.deepEqual([report.state, report.checked, report.withheld], ["part", seen.size, hidden]);
  assert.equal(pinOf(report, "now"), null);
  for (const { lsn } of part.events) {
    const { broken } = await verify(changed(part, lsn, ALTERED.content_hash[0]), { isWhole: false });
    assert.deepEqual(broken, { lsn, defect: "content" });
  }
  assert.deepEqual((await verify(part)).broken?.defect, "missing", "as a whole it is not");
});

test("next to what is withheld links stay open, at the beginning and at the end too", async () => {
  const { length } = whole.events;
  const middle = { ...whole, events: whole.events.slice(5, -4) };
  const report = await verify(middle, { isWhole: false });
  assert.deepEqual([report.state, report.checked, report.withheld], ["part", length - 9, 9]);
  let run = newRun({ ...whole, whole: false });
  run = await take(run, whole.events.slice(0, 10), 20);
  run = await take(run, [], 30);
  assert.deepEqual([run.lsn, run.withheld, run.checked, run.hash], [30, 20, 10, null]);
  const pin = { lsn: 25, content_hash: "" };
  assert.equal((await verify(middle, { isWhole: false, pin: { lsn: 2, content_hash: "" } })).pinned, "withheld");
  assert.equal((await verify(middle, { isWhole: false, pin })).pinned, "rewritten");
});

test("a pruned log begins where it says, and links up to there", async () => {
  const report = await verify(pruned);
  assert.deepEqual([report.state, report.floor], ["whole", pruned.floor]);
  assert.ok(pruned.floor > 1);
  const declaring = pruned.events.findLast(({ kind }) => kind === "EventsPruned");
  const other = { ...pruned, floor: pruned.floor + 1 };
  assert.deepEqual((await verify(other)).broken, { lsn: declaring.lsn, defect: "floor" });
  const undeclared = { ...whole, floor: 9, events: whole.events.slice(8) };
  assert.equal((await verify(undeclared)).broken.defect, "floor");
  const elsewhere = rewritten(pruned, declaring.lsn, (payload) => (payload.prev_hash = sha("x")));
  elsewhere.head = { lsn: elsewhere.head.lsn, hash: elsewhere.events.at(-1).content_hash };
  assert.deepEqual((await verify(elsewhere)).broken, { lsn: declaring.lsn, defect: "floor" });
  const hidden = { ...pruned, floor: 1 };
  assert.equal((await verify(hidden)).state, "broken");
});

test("events below the floor may still be there", async () => {
  const declaring = pruned.events.findLast(({ kind }) => kind === "EventsPruned");
  const below = whole.events.filter(({ lsn }) => lsn < pruned.floor);
  const events = [...below, ...pruned.events];
  assert.equal(below.at(-1).content_hash, declaring.payload.prev_hash);
  assert.equal((await verify({ ...pruned, events })).state, "whole");
  assert.equal((await verify({ ...pruned, events: events.slice(3) })).state, "whole");
  assert.equal((await verify({ ...pruned, events: [events[0], ...events.slice(3)] })).state, "broken");
});

test("a floor that the log does not declare so is found, also where its event is withheld", async () => {
  const declaring = pruned.events.findLast(({ kind }) => kind === "EventsPruned");
  const below = whole.events.filter(({ lsn }) => lsn < pruned.floor);
  const all = { ...pruned, events: [...below, ...pruned.events] };
  assert.deepEqual((await verify({ ...all, floor: 1 })).broken, { lsn: declaring.lsn, defect: "floor" });
  const floor = pruned.floor + 1;
  const gap = { ...all, floor, events: all.events.filter(({ lsn }) => lsn > floor) };
  assert.deepEqual((await verify(gap, { isWhole: false })).broken, { lsn: declaring.lsn, defect: "floor" });
  const beyond = rewritten(all, declaring.lsn, (payload) => (payload.floor = declaring.lsn + 1));
  const last = beyond.events.filter(({ lsn }) => lsn <= declaring.lsn);
  const head = { lsn: declaring.lsn, hash: last.at(-1).content_hash };
  assert.equal((await verify({ ...beyond, floor: declaring.lsn + 1, head, events: last })).broken?.defect, "floor");
});

test("an event of another type than its kind is found though the hashes fit", async () => {
  const other = rewritten(whole, 20, (payload) => (payload.$type = "svc.event.Other/1"));
  assert.deepEqual((await verify(other)).broken, { lsn: 20, defect: "type" });
});

test("canonical JSON is that of RFC 8785", () => {
  // Section 3.2.3, and members that objects have by themselves.
  const text =
    '{"\\u20ac":"Euro Sign","\\r":"Carriage Return","\\ufb33":"Hebrew","1":"One","\\ud83d\\ude00":"Grinning","\\u0080":"Control","\\u00f6":"o"}';
  const names = Object.keys(JSON.parse(canonical(JSON.parse(text))));
  assert.deepEqual(
    names.filter((name) => name !== "1"),
    ["\r", "\u0080", "\u00f6", "\u20ac", "\ud83d\ude00", "\ufb33"],
  );
  assert.equal(
    canonical(JSON.parse('{"b":[1.0,1e2,-0,0.5],"a":"\\u0007\\u2028/\\""}')),
    '{"a":"\\u0007\u2028/\\"","b":[1,100,0,0.5]}',
  );
  assert.equal(canonical(JSON.parse('{"__proto__":{"z":1},"a":null}')), '{"__proto__":{"z":1},"a":null}');
  for (const { payload, content_hash } of whole.events) assert.equal(sha(canonical(payload)), content_hash);
});
