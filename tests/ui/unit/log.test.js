// The log as it is read backwards: what is looked through, what fits, and where it ends.

import assert from "node:assert/strict";
import { test } from "node:test";

import { openLog } from "../../../svc-http/ui/state/log.js";

const KINDS = ["ThreadCreated", "MessagePosted"];
const event = (lsn) => ({ lsn, kind: KINDS[lsn % 2], payload: { $chain: {}, attribution: {} } });
const noFilter = { kinds: new Set(), thread: "", channel: "", member: "", text: "" };

/** A service with a log from `floor` to `head`; `answers` may stand in for some of them. */
function service({ floor = 1, head, fails = () => false }) {
  const asked = [];
  const ask = async (op, input) => {
    asked.push([op, input]);
    if (fails(asked.length)) throw new Error("cut");
    if (op === "get_room") return { body: { floor, head: { lsn: head } } };
    const { after_id, limit, kind } = input;
    assert.ok(after_id >= floor - 1, `asked below the floor: ${after_id}`);
    const upTo = Math.min(head, after_id + 2_000);
    const items = [];
    let lsn = after_id + 1;
    for (; lsn <= upTo && items.length < limit; lsn += 1) if (!kind || event(lsn).kind === kind) items.push(event(lsn));
    return { body: { items, after_id: lsn - 1, next_cursor: lsn <= head ? "more" : null } };
  };
  return { asked, ask };
}

/** Opens a log, and waits until it has read what it reads by itself. */
async function opened({ ask }, filter = {}, events = []) {
  const log = openLog({ ask, store: { events: () => events, watch: () => () => {} } }, { ...noFilter, ...filter }, () => {});
  await idle(log);
  return log;
}

async function idle(log) {
  for (let turn = 0; log.progress.isReading && turn < 1_000; turn += 1) await new Promise(setImmediate);
  assert.equal(log.progress.isReading, false);
}

test("it begins with the newest and goes on to the beginning", async () => {
  const log = await opened(service({ head: 1_200 }));
  assert.equal(log.items()[0].lsn, 1_200);
  assert.ok(!log.isAtEnd());
  for (let turn = 0; turn < 10 && !log.isAtEnd(); turn += 1) await log.more();
  assert.deepEqual(
    log.items().map(({ lsn }) => lsn),
    Array.from({ length: 1_200 }, (_, at) => 1_200 - at),
  );
});

test("words that are withdrawn or gone are on no event any more, whenever it was read", async () => {
  const said = (lsn, message_id, kind = "MessagePosted") => {
    const message = { body: `words ${lsn}`, content: [], metadata: {}, unreadable: false, withdrawn: false };
    return { lsn, kind, payload: { message_id, $chain: {}, attribution: {} }, message };
  };
  const end = (lsn, kind, payload) => ({ lsn, kind, payload: { ...payload, $chain: {}, attribution: {} } });
  const log = await opened(service({ head: 1 }), {}, []);
  const wordsOf = () => log.items().map(({ message }) => message?.body).filter((words) => words !== undefined);
  log.take([said(2, "a"), said(3, "b"), said(4, "c"), said(5, "c", "MessageEdited"), said(8, "d")]);
  log.take([end(9, "MessageTombstoned", { message_id: "a" })]);
  assert.deepEqual([log.get(2).message.withdrawn, log.get(2).message.body], [true, ""]);
  log.take([end(10, "MessagePurged", { message_id: "b" })]);
  assert.deepEqual(wordsOf(), ["words 8", "words 5", "words 4", ""]);
  log.take([end(11, "MessagesPruned", { up_to_lsn: 4 })]);
  assert.deepEqual(wordsOf(), ["words 8"]);
  const late = await opened(service({ head: 1_200 }), {}, [said(3, "e"), end(1_201, "MessagePurged", { message_id: "e" })]);
  assert.equal(late.get(3).message, null);
});

test("a pruned log ends at its floor", async () => {
  const log = await opened(service({ floor: 1_100, head: 1_200 }));
  assert.ok(log.isAtEnd());
  assert.equal(log.items().at(-1).lsn, 1_100);
  assert.equal(log.progress.floor, 1_100);
});

test("one kind is asked for, several are looked for", async () => {
  const one = service({ head: 40 });
  const log = await opened(one, { kinds: new Set(["MessagePosted"]) });
  assert.ok(log.items().every(({ kind }) => kind === "MessagePosted") && log.items().length === 20);
  assert.equal(one.asked[1][1].kind, "MessagePosted");
  const several = service({ head: 40 });
  assert.equal((await opened(several, { kinds: new Set(KINDS) })).items().length, 40);
  assert.equal(several.asked[1][1].kind, undefined);
});

test("where nothing fits, it says how far it has looked and stops", async () => {
  const far = service({ head: 1_000_000 });
  const log = await opened(far, { text: "nothing has this" });
  assert.deepEqual(log.items(), []);
  assert.ok(log.progress.low < 1_000_000 && !log.progress.hasFound && !log.isAtEnd());
  assert.ok(far.asked.length < 50, `${far.asked.length}`);
});

test("a read that fails is told, and can be tried again", async () => {
  const log = await opened(service({ head: 10, fails: (count) => count === 2 }));
  assert.equal(log.progress.problem.message, "cut");
  await log.more();
  assert.equal(log.progress.problem, null);
  assert.equal(log.items().length, 10);
});

test("what happens meanwhile is added once, if it fits", async () => {
  const log = await opened(service({ head: 3 }), { kinds: new Set(["MessagePosted"]) }, [event(3)]);
  log.take([event(3), event(4), event(5)]);
  assert.deepEqual(
    log.items().map(({ lsn }) => lsn),
    [5, 3, 1],
  );
});
