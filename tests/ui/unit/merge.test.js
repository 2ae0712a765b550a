// The rules of folding, one by one, on events made by hand.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { BESIDE } from "../../../svc-http/ui/pure/answered.js";
import * as merge from "../../../svc-http/ui/pure/merge.js";
import { recorded } from "./data/read.js";

const me = { member_id: "me", workspace_id: "w" };

function event(lsn, kind, fields, { thread = "t", channel = "c", member = null, by = "someone" } = {}) {
  const at = 1_700_000_000_000_000 + lsn * 1_000_001;
  const chain = { at, channel_id: channel, kind, lsn, member_id: member, prev_hash: "", thread_id: thread, workspace_id: "w" };
  const payload = { $chain: chain, $type: `svc.event.${kind}/1`, attribution: { actor_id: by, subject_id: by }, ...fields };
  return { lsn, kind, prev_hash: "", content_hash: `sha256:${lsn}`, payload };
}

const thread = {
  id: "t",
  channel_id: "c",
  title: "A",
  priority: 0,
  state: "open",
  blocked: 0,
  parent_id: null,
  has_result: false,
};
const renamed = (lsn, title) => event(lsn, "ThreadUpdated", { title });

function known(lsn = 5, fields = {}) {
  const world = merge.newWorld(me);
  merge.applyAnswer(world, "thread", { ...thread, ...fields }, lsn);
  return world;
}
const titleOf = (world) => merge.entity(world, "thread", "t").title;

test("an event that an answer knew changes nothing, and one after it does", () => {
  const world = known(5);
  assert.deepEqual([...merge.applyEvents(world, [renamed(5, "B")]).dirty], []);
  assert.equal(titleOf(world), "A");
  const changes = merge.applyEvents(world, [renamed(6, "C")]);
  assert.deepEqual([...changes.dirty], ["thread/t"]);
  assert.deepEqual([titleOf(world), merge.entity(world, "thread", "t").of], ["C", 6]);
});

test("what was patched is another object, and what was not is the same", () => {
  const world = known(5);
  const before = merge.entity(world, "thread", "t");
  merge.applyEvents(world, [event(6, "ThreadUpdated", { title: "X" }, { thread: "other" })]);
  assert.equal(merge.entity(world, "thread", "t"), before);
  merge.applyEvents(world, [renamed(7, "B")]);
  assert.notEqual(merge.entity(world, "thread", "t"), before);
  assert.equal(before.title, "A");
});

test("an answer that is older than what is known is dropped", () => {
  const world = known(5);
  merge.applyAnswer(world, "thread", { ...thread, title: "old" }, 4);
  assert.equal(titleOf(world), "A");
  merge.applyAnswer(world, "thread", { ...thread, title: "same" }, 5);
  assert.equal(titleOf(world), "same");
});

test("an event before the thing was known is folded into the answer that comes later", () => {
  const world = merge.newWorld(me);
  merge.applyEvents(world, [renamed(6, "B"), renamed(8, "C")]);
  assert.equal(merge.entity(world, "thread", "t"), undefined);
  merge.applyAnswer(world, "thread", thread, 6);
  assert.equal(titleOf(world), "C");
});

test("an event that comes twice is kept once", () => {
  const world = known(1);
  merge.applyEvents(world, [renamed(2, "B"), renamed(3, "C")]);
  const changes = merge.applyEvents(world, [renamed(2, "B"), renamed(3, "C"), renamed(4, "D")]);
  assert.deepEqual(
    world.events.map(({ lsn }) => lsn),
    [2, 3, 4],
  );
  assert.deepEqual([...changes.dirty], ["thread/t"]);
});

test("two thousand events are kept, and an answer from before them has to be read again", () => {
  const world = known(1);
  merge.applyEvents(
    world,
    Array.from({ length: 3000 }, (_, at) => renamed(at + 2, `T${at}`)),
  );
  assert.equal(world.events.length, 2000);
  assert.equal(world.floor, world.events[0].lsn - 1);
  const other = { ...thread, id: "u" };
  merge.applyAnswer(world, "thread", other, world.floor);
  assert.equal(merge.entity(world, "thread", "u").stale, false);
  merge.applyAnswer(world, "thread", { ...other, id: "v" }, world.floor - 1);
  assert.equal(merge.entity(world, "thread", "v").stale, true);
});

test("after missed events all is stale until it is read from there on", () => {
  const world = known(5);
  const { dirty } = merge.restart(world, 100);
  assert.deepEqual([...dirty], ["thread/t"]);
  merge.applyAnswer(world, "thread", { ...thread, title: "old" }, 99);
  assert.deepEqual([merge.entity(world, "thread", "t").stale, titleOf(world)], [true, "A"]);
  merge.applyAnswer(world, "thread", { ...thread, title: "new" }, 100);
  assert.deepEqual([merge.entity(world, "thread", "t").stale, titleOf(world)], [false, "new"]);
});

test("the words of what is withdrawn are kept in no event", () => {
  const world = merge.newWorld(me);
  const message = { body: "words", content: [], metadata: {}, unreadable: false, withdrawn: false };
  const posted = { ...event(2, "MessagePosted", { message_id: "m", author_id: null }), message };
  merge.applyEvents(world, [posted, event(3, "MessageTombstoned", { message_id: "m" })]);
  assert.deepEqual([world.events[0].message.body, world.events[0].message.withdrawn], ["", true]);
  merge.applyEvents(world, [event(4, "MessagePurged", { message_id: "m" })]);
  assert.equal(world.events[0].message, null);
});

test("the words of what is withdrawn, purged or pruned are in nothing that said them", () => {
  const pruned = event(5, "MessagesPruned", { up_to_lsn: 4 }, { thread: null, channel: null });
  const ends = [event(5, "MessageTombstoned", { message_id: "m" }), event(5, "MessagePurged", { message_id: "m" }), pruned];
  for (const end of ends) {
    const world = merge.newWorld(me);
    const of = (kind, fields) => merge.applyAnswer(world, kind, { message_id: "m", ...fields }, 4);
    // Whether this one is older is known of its message alone.
    merge.applyAnswer(world, "message", { id: "n", lsn: 4.5, body: "kept" }, 4);
    of("review", { id: "r", body: "words", findings: [{ id: "f", body: "words", severity: "minor" }] });
    of("gate", { id: "g", question: "words" });
    of("vote", { id: "v", question: "words", options: [{ text: "words", votes: 1 }] });
    of("inbox", { id: "2", preview: "words" });
    of("inbox_all", { id: "2", preview: "words" });
    of("pins", { id: "c", items: [{ message: { id: "m", body: "words" } }, { message: { id: "n" } }] });
    of("gate", { id: "other", message_id: "n", question: "kept" });
    const { dirty, lists } = merge.applyEvents(world, [end]);
    assert.ok(!JSON.stringify(Object.values(world.kinds).map((known) => [...known.values()])).includes("words"), end.kind);
    assert.deepEqual([...dirty].sort(), ["gate/g", "inbox/2", "inbox_all/2", "pins/c", "review/r", "vote/v"]);
    assert.deepEqual([merge.entity(world, "vote", "v").options, merge.entity(world, "gate", "other").question], [
      [{ text: "", votes: 1 }],
      "kept",
    ]);
    assert.deepEqual([merge.entity(world, "pins", "c").items.length, lists.has("inbox")], [1, true]);
  }
});

test("into a channel that could not be seen, all is read anew", () => {
  const here = { thread: null };
  const added = (lsn, member_id) => event(lsn, "ChannelMemberAdded", { channel_id: "c", member_id }, here);
  const updated = (lsn, closed) => event(lsn, "ChannelUpdated", { channel_id: "c", name: "c", topic: null, private: closed }, here);
  const isAnew = (world, one) => merge.applyEvents(world, [one]).lists.has("all");
  const outside = () => merge.newWorld(me);
  const inside = () => {
    const world = merge.newWorld(me);
    merge.applyAnswer(world, "channel", { id: "c", name: "c", private: false }, 0);
    return world;
  };
  const of = (one) => [isAnew(outside(), one), isAnew(inside(), one)];
  assert.deepEqual(of(added(1, "me")), [true, false]);
  assert.deepEqual(of(added(1, "someone")), [false, false]);
  assert.deepEqual(of(updated(1, false)), [true, false]);
  assert.deepEqual(of(updated(1, true)), [false, false]);
});

test("what is gone stays gone when an old answer has it, and a read that finds nothing removes it", () => {
  const world = merge.newWorld(me);
  const purged = event(6, "MessagePurged", { message_id: "m", author_id: null, purged_by: null });
  merge.applyEvents(world, [purged]);
  const changes = merge.applyAnswer(world, "message", { id: "m", channel_id: "c", lsn: 2 }, 5);
  assert.deepEqual([...changes.gone], ["message/m"]);
  assert.equal(merge.entity(world, "message", "m"), undefined);
  const other = known(5);
  merge.applyMissing(other, "thread", "t", 4);
  assert.ok(merge.entity(other, "thread", "t"));
  assert.deepEqual([...merge.applyMissing(other, "thread", "t", 5).gone], ["thread/t"]);
});

test("what is no more and then is again is not gone; and lists are named once, when the event comes", () => {
  const world = merge.newWorld(me);
  const nowhere = { thread: null, channel: null };
  const paused = (lsn) => event(lsn, "RepoPaused", { repo: "a/a", reason: null }, nowhere);
  const { gone, lists } = merge.applyEvents(world, [paused(1), event(2, "RepoResumed", { repo: "A/a" }, nowhere), paused(3)]);
  assert.deepEqual([...gone], []);
  assert.deepEqual([...lists], ["deferred", "occupancy"]);
  assert.deepEqual([...merge.applyAnswer(world, "pause", { repo: "b/b" }, 0).lists], []);
});

test("what others say where one follows has the follows read", () => {
  const world = merge.newWorld(me);
  const said = (lsn, thread, author_id) => event(lsn, "MessagePosted", { message_id: `m${lsn}`, author_id }, { thread });
  const listsOf = (...events) => [...merge.applyEvents(world, events).lists];
  assert.deepEqual(listsOf(said(1, "t", "someone")), ["inbox"]);
  merge.applyAnswer(world, "follow", { id: "t", kind: "thread", unread: 0 }, 1);
  assert.deepEqual(listsOf(said(2, "other", "someone")), ["inbox"]);
  assert.deepEqual(listsOf(said(3, "t", "someone")), ["inbox", "follows"]);
  assert.deepEqual(listsOf(said(4, "t", "me")), []);
  merge.applyAnswer(world, "follow", { id: "c", kind: "channel", unread: 0 }, 4);
  assert.deepEqual(listsOf(said(5, "other", "someone")), ["inbox", "follows"]);
});

test("a kind that is unknown makes its thread stale, and one outside of threads nothing", () => {
  const world = known(5);
  merge.applyAnswer(world, "context", { id: "t" }, 5);
  merge.applyEvents(world, [event(6, "SomethingNew", {})]);
  assert.equal(merge.entity(world, "thread", "t").stale, true);
  assert.equal(merge.entity(world, "context", "t").stale, true);
  assert.deepEqual([...merge.applyEvents(world, [event(7, "SomethingElse", {}, { thread: null })]).dirty], []);
});

test("a close makes stale who waits for it, and nobody else", () => {
  const world = known(1);
  const others = [
    { ...thread, id: "waits", blocked: 2 },
    { ...thread, id: "free", blocked: 0 },
    { ...thread, id: "elsewhere", blocked: 1 },
    { ...thread, id: "unknown", blocked: 1 },
  ];
  merge.applyAnswer(world, "thread", others, 1);
  const awaits = (id, on) => ({ id, items: on.map((thread_id) => ({ thread_id, finished: false, title: "", state: "open" })) });
  merge.applyAnswer(world, "dependencies", [awaits("waits", ["t", "x"]), awaits("free", []), awaits("elsewhere", ["x"])], 1);
  merge.applyEvents(world, [event(2, "ThreadStateChanged", { from: "open", to: "closed", action: "close" })]);
  const stale = [...world.kinds.thread.values()].filter((known) => known.stale).map(({ id }) => id);
  assert.deepEqual(stale.sort(), ["unknown", "waits"]);
  const [first] = merge.entity(world, "dependencies", "waits").items;
  assert.deepEqual([first.finished, first.state], [true, "closed"]);
  merge.applyEvents(world, [event(3, "ThreadReady", { thread_id: "waits" }, { thread: "waits" })]);
  assert.equal(merge.entity(world, "thread", "waits").blocked, 0);
});

test("whoever leaves a private channel sees nothing of it any more", () => {
  const world = known(1);
  merge.applyAnswer(world, "channel", { id: "c", private: true }, 1);
  merge.applyAnswer(world, "channel", { id: "d", private: true }, 1);
  merge.applyAnswer(
    world,
    "message",
    [
      { id: "m", channel_id: "c" },
      { id: "n", channel_id: "d" },
    ],
    1,
  );
  merge.applyAnswer(world, "review", [{ id: "r", thread_id: "t" }], 1);
  const out = (lsn, member_id) => event(lsn, "ChannelMemberRemoved", { channel_id: "c", member_id }, { thread: null });
  assert.deepEqual([...merge.applyEvents(world, [out(2, "another")]).gone], []);
  const { gone } = merge.applyEvents(world, [out(3, "me")]);
  assert.deepEqual([...gone].sort(), ["channel/c", "message/m", "review/r", "thread/t"]);
  // Who has lost sight of a channel is sent nothing of it: what is to be seen does not have it any more.
  merge.applyEvents(world, [event(4, "ThreadUpdated", { title: "B" }, { thread: "u", channel: "d" })]);
  assert.deepEqual([...merge.applyMissing(world, "channel", "d", 5).gone].sort(), ["channel/d", "message/n"]);
  assert.deepEqual(world.events.map(({ lsn }) => lsn), [2, 3]);
});

test("a claim that lapsed or was not acknowledged leaves an alarm, until somebody takes the thread up", () => {
  const world = known(1, { owner_id: "me" });
  const claim = { thread_id: "t", member_id: "a", claim_lease_id: "l" };
  merge.applyEvents(world, [event(2, "ClaimUnacknowledged", { ...claim, owner_id: "me" })]);
  assert.equal(merge.entity(world, "alarm", "t").reason, "unacknowledged");
  merge.applyEvents(world, [event(3, "ClaimAcknowledged", claim)]);
  assert.equal(merge.entity(world, "alarm", "t"), undefined);
  const over = { thread_id: "t", assignee_id: null, claim_lease_id: null, expires_at: null, reason: "expired" };
  merge.applyEvents(world, [event(4, "ClaimExpired", { ...claim, expired_at: "x" }), event(5, "ThreadAssignmentChanged", over)]);
  const alarm = merge.entity(world, "alarm", "t");
  assert.deepEqual([alarm.reason, alarm.member_id, alarm.owner_id], ["lapsed", "a", "me"]);
  const taken = { ...over, assignee_id: "b", claim_lease_id: "k", expires_at: "y", reason: "claimed" };
  merge.applyEvents(world, [event(6, "ThreadAssignmentChanged", taken)]);
  assert.equal(merge.entity(world, "alarm", "t"), undefined);
});

test("times are written as the API writes them", () => {
  assert.equal(merge.iso(1_700_000_000_000_007), "2023-11-14T22:13:20.000007Z");
  assert.equal(merge.iso(1_700_000_000_999_999), "2023-11-14T22:13:20.999999Z");
  const [first] = recorded("story").steps;
  const channel = Object.values(first.changes.channel).find(({ name }) => name === "general");
  const made = recorded("opened").find(({ payload }) => payload.channel_id === channel.id);
  assert.equal(merge.placeOf(made).at, channel.created_at);
});

test("what answers have beside an entity is known by the schemas", () => {
  const folder = new URL("../../golden/schemas/", import.meta.url);
  const kinds = { thread: "Thread", message: "Message", gate: "ApprovalGate" };
  const beside = { thread: new Set(), message: new Set(), gate: new Set() };
  for (const name of readdirSync(folder)) {
    const text = readFileSync(new URL(name, folder), "utf8");
    const schema = JSON.parse(text);
    for (const [kind, base] of Object.entries(kinds)) {
      if (!text.includes(`"${base}.json"`) && !text.includes(`/${base}"`)) continue;
      if (!("$ref" in schema || "allOf" in schema)) continue;
      Object.keys(schema.properties ?? {}).forEach((field) => beside[kind].add(field));
    }
  }
  for (const kind of Object.keys(kinds)) {
    assert.deepEqual(
      [...beside[kind]].filter((field) => !BESIDE[kind].includes(field)),
      [],
      kind,
    );
    assert.ok(beside[kind].size > 0, kind);
  }
});
