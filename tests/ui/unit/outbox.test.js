// What a write has left in the log, where nobody can say what that would be.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Problem } from "../../../svc-http/ui/net/ask.js";
import { createOutbox } from "../../../svc-http/ui/net/outbox.js";

const event = (lsn, actor_id, more = {}) => ({ lsn, kind: `K${lsn}`, payload: { attribution: { actor_id, ...more } } });

/** An outbox of "me", over a log that is read in pages of so many. */
function over(log, page = 500) {
  const asked = [];
  const ask = async (_, { after_id }) => {
    asked.push(after_id);
    const rest = log.filter(({ lsn }) => lsn > after_id);
    const items = rest.slice(0, page);
    const next_cursor = rest.length > page ? "more" : null;
    return { body: { items, after_id: items.at(-1)?.lsn ?? after_id, next_cursor } };
  };
  return { asked, outbox: createOutbox({ ask, lsn: () => 0, memberId: "me", changed: () => {} }) };
}

test("it is the last of one's own, and neither another's nor a later one", async () => {
  const log = [event(3, "me"), event(4, "me"), event(5, "other"), event(6, "other"), event(7, "me")];
  const { outbox } = over(log);
  assert.equal((await outbox.leftBy({ since: 2, lsn: 6 })).lsn, 4);
});

test("what is done for somebody else is one's own too", async () => {
  const { outbox } = over([event(3, "agent", { subject_id: "me" }), event(4, "other")]);
  assert.equal((await outbox.leftBy({ since: 2, lsn: 4 })).lsn, 3);
});

test("what has left nothing has none, whatever others have done", async () => {
  const { outbox } = over([event(3, "me"), event(4, "other"), event(5, "other")]);
  assert.equal(await outbox.leftBy({ since: 3, lsn: 5 }), null);
});

test("it is looked for on every page, and no further than the answer", async () => {
  const log = Array.from({ length: 9 }, (_, at) => event(at + 1, at === 3 ? "me" : "other"));
  const { asked, outbox } = over(log, 2);
  assert.equal((await outbox.leftBy({ since: 0, lsn: 6 })).lsn, 4);
  assert.deepEqual(asked, [0, 2, 4]);
});

/** An outbox whose every request is cut off until `is.up`, over a log; `turn` lets time pass. */
function cutOff(context, log) {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const is = { up: false, asked: 0 };
  const ask = async (operation) => {
    is.asked += 1;
    if (!is.up) throw new Problem({ code: "unreachable", status: 0, detail: "", isUnknown: true, operation });
    return { body: { items: log, after_id: 9, next_cursor: null } };
  };
  const outbox = createOutbox({ ask, lsn: () => 0, memberId: "me", changed: () => {} });
  const left = ({ kind }) => kind === "K3";
  const sent = outbox.send({ action: "say", op: "post_message", about: "t", input: { body: "words" }, left });
  const turn = async (ms) => {
    for (let time = 0; time < 20; time += 1) await new Promise(setImmediate);
    context.mock.timers.tick(ms);
    for (let time = 0; time < 20; time += 1) await new Promise(setImmediate);
  };
  return { is, outbox, sent, turn };
}

test("what nobody could be asked about is looked up for as long as that takes, and at once when one can", async (context) => {
  for (const [log, state] of [[[event(3, "me")], "done"], [[], "not-sent"]]) {
    const { is, outbox, sent, turn } = cutOff(context, log);
    for (let time = 0; time < 60; time += 1) await turn(20_000);
    assert.deepEqual(outbox.open("t").map((write) => write.state), ["unknown"]);
    const { asked } = is;
    is.up = true;
    outbox.wake();
    await turn(0);
    assert.deepEqual([(await sent).state, is.asked, outbox.open("t")], [state, asked + 1, []]);
    context.mock.timers.reset();
  }
});

test("what is unknown can be dismissed, and the next of its kind leaves it", async (context) => {
  const { is, outbox, sent, turn } = cutOff(context, []);
  for (let time = 0; time < 9; time += 1) await turn(20_000);
  void outbox.send({ action: "say", op: "post_message", about: "t", input: {}, left: () => false });
  const [first, second] = outbox.open("t");
  outbox.dismiss(first.id);
  const { asked } = is;
  assert.equal((await sent).state, "unknown");
  assert.equal(is.asked, asked);
  assert.deepEqual(outbox.all(), [second]);
  outbox.close();
});

test("a log that cannot be read has none", async () => {
  const ask = async () => {
    throw new Error("cut");
  };
  const outbox = createOutbox({ ask, lsn: () => 0, memberId: "me", changed: () => {} });
  assert.equal(await outbox.leftBy({ since: 0, lsn: 6 }), null);
});

test("without an answer any event of one's own counts, but none that another write has left", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const log = [event(1, "other"), event(2, "me"), event(3, "me")];
  const ask = async (operation) => {
    if (operation === "answered") return { body: null, lsn: 2, at: 0 };
    if (operation === "list_events") return { body: { items: log, next_cursor: null } };
    throw new Problem({ code: "unreachable", status: 0, detail: "", isUnknown: true, operation });
  };
  const outbox = createOutbox({ ask, lsn: () => 0, memberId: "me", changed: () => {} });
  const letter = (op, more) => ({ action: op, op, about: op, input: {}, ...more });
  const settled = async (sent) => {
    let write = null;
    void sent.then((done) => (write = done));
    for (; !write; t.mock.timers.tick(100)) await new Promise(setImmediate);
    return write;
  };
  await outbox.send(letter("answered", { left: ({ lsn }) => lsn === 2 }));
  const write = await settled(outbox.send(letter("lost", { leavesAny: true })));
  assert.deepEqual([write.state, write.lsn, write.found.lsn], ["done", 3, 3]);
  log.pop();
  assert.equal((await settled(outbox.send(letter("lost again", { leavesAny: true })))).state, "not-sent");
  assert.equal((await outbox.send(letter("leaves none", {}))).state, "not-sent");
});
