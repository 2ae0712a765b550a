// Trees are asked for many at a time, kept as long as what they are of, and asked for again after what may pass.

import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.requestAnimationFrame = (draw) => setTimeout(draw, 0);
globalThis.cancelAnimationFrame = clearTimeout;

const { Problem } = await import("../../../svc-http/ui/net/ask.js");
const { createStore } = await import("../../../svc-http/ui/state/store.js");
const { createTrees } = await import("../../../svc-http/ui/state/trees.js");

const turn = async () => {
  for (let time = 0; time < 20; time += 1) await new Promise(setImmediate);
};
const treeOf = (text) => ({ nodes: [{ type: "text", text }], not_reached: [] });

/** Trees over a service whose answers are given by hand. */
function planting(context, lacks = () => null) {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const store = createStore({ member_id: "me", workspace_id: "w" });
  const asked = [];
  const ask = (op, input) =>
    new Promise((answer, refuse) => {
      const first = (count) => (answer({ body: { items: input.texts.slice(0, count).map(treeOf) } }), turn());
      asked.push({ op, ...input, answer: first, refuse: (problem) => (refuse(problem), turn()) });
    });
  const trees = createTrees({ store, ask, lacks, together: (draw) => draw() });
  const drawn = [];
  const want = (source) => trees.want(source, ([node]) => drawn.push(node.text));
  const pass = async (ms) => {
    await turn();
    context.mock.timers.tick(ms);
    await turn();
  };
  /** A message is read, and drawn. */
  const put = async (id, fields, lsn = 1) => {
    store.put("message", { id, body: "", content: [], withdrawn: false, ...fields }, lsn);
    await pass(300);
  };
  return { store, trees, asked, drawn, want, pass, put };
}

const problem = (status) => new Problem({ code: `http-${status}`, status, detail: "", operation: "" });

test("what is wanted together is one request a channel, and the same text is asked for once", async (context) => {
  const { asked, drawn, want } = planting(context);
  for (const text of ["a", "b", "a"]) want({ channel: "c", text });
  want({ text: "a" });
  await turn();
  assert.deepEqual(
    asked.map(({ channel_id, texts }) => [channel_id, texts]),
    [
      ["c", ["a", "b"]],
      [undefined, ["a"]],
    ],
  );
  await asked[0].answer();
  assert.deepEqual(drawn, ["a", "a", "b"]);
});

test("a request has 100 texts and 1 MiB at most, and two are on their way", async (context) => {
  const { asked, want } = planting(context);
  for (let at = 0; at < 250; at += 1) want({ text: `text ${at}` });
  const long = ["x", "y", "z"].map((char) => char.repeat(500_000));
  for (const text of long) want({ text });
  await turn();
  assert.deepEqual(asked.map(({ texts }) => texts.length), [100, 100]);
  await asked[1].answer();
  assert.equal(asked.length, 3);
  assert.deepEqual(asked[2].texts.slice(50), long.slice(0, 2));
  await asked[0].answer();
  assert.deepEqual(asked[3].texts, long.slice(2));
});

test("an answer may have the first trees only, and the others are asked for again", async (context) => {
  const { asked, drawn, want } = planting(context);
  for (const text of ["a", "b", "c"]) want({ text });
  await turn();
  await asked[0].answer(1);
  await asked[1].answer(1);
  await asked[2].answer();
  assert.deepEqual(asked.map(({ texts }) => texts), [["a", "b", "c"], ["b", "c"], ["c"]]);
  assert.deepEqual(drawn, ["a", "b", "c"]);
  want({ text: "d" });
  await turn();
  await asked[3].answer(0);
  assert.equal(asked.length, 4, "an answer without any tree is not asked for again");
});

test("a tree is kept beside its message as long as that has the text", async (context) => {
  const { trees, asked, want, put } = planting(context);
  const of = "message/m";
  await put("m", { body: "one", content: [{ type: "text", text: "two" }] });
  for (const text of ["one", "two"]) want({ of, text });
  await turn();
  await asked[0].answer();
  assert.deepEqual(trees.known({ of, text: "two" }), treeOf("two").nodes);
  await put("m", { body: "one", reactions: [{}] }, 2);
  assert.ok(trees.known({ of, text: "one" }));
  assert.equal(trees.known({ of, text: "two" }), null);
  await put("m", { body: "another" }, 3);
  assert.equal(trees.known({ of, text: "one" }), null);
});

test("a tree that comes after its message was withdrawn or forgotten is not kept, and not drawn", async (context) => {
  const { store, trees, asked, drawn, want, pass, put } = planting(context);
  for (const id of ["m", "n"]) {
    await put(id, { body: id });
    want({ of: `message/${id}`, text: id });
  }
  await turn();
  await put("m", { withdrawn: true }, 2);
  store.forget("message", ["n"]);
  await pass(300);
  await asked[0].answer();
  const kept = ["m", "n"].map((id) => trees.known({ of: `message/${id}`, text: id }));
  assert.deepEqual([drawn, kept], [[], [null, null]]);
});

test("earlier texts of a message wait for their trees until it is withdrawn, also if it is not known", async (context) => {
  const end = (message_id) => ({ lsn: 5, kind: "MessageTombstoned", payload: { message_id, $chain: { at: 1 }, attribution: {} } });
  const { store, trees, asked, drawn, want, pass, put } = planting(context);
  await put("m", { body: "now" });
  for (const id of ["m", "n", "o"]) want({ of: `message/${id}`, isPast: true, text: `once ${id}` });
  await turn();
  await asked[0].refuse(problem(503));
  await put("m", { body: "now", reactions: [{}] }, 2);
  store.receive([end("n")]);
  await pass(10_000);
  assert.deepEqual(asked[1].texts, ["once m", "once o"]);
  await asked[1].answer();
  assert.deepEqual([drawn, trees.known({ of: "message/m", text: "once m" })], [["once m", "once o"], null]);
  want({ of: "message/o", isPast: true, text: "once more" });
  await turn();
  await asked[2].refuse(problem(503));
  store.receive([{ ...end(), lsn: 6, kind: "MessagesPruned" }]);
  await pass(10_000);
  assert.equal(asked.length, 3);
});

test("words that are being sent wait for their trees as long as they are", async (context) => {
  const { store, asked, want, pass } = planting(context);
  want({ of: "composer/t", text: "words" });
  await turn();
  await asked[0].refuse(problem(503));
  store.touch(["composer/t"]);
  await pass(10_000);
  assert.equal(asked.length, 1);
});

test("what failed for now is asked for again, what is refused is not", async (context) => {
  const { asked, drawn, want, pass } = planting(context);
  want({ text: "a" });
  await turn();
  await asked[0].refuse(problem(503));
  want({ text: "b" });
  await turn();
  assert.equal(asked.length, 1, "it waits");
  await pass(10_000);
  assert.deepEqual(asked[1].texts, ["a", "b"]);
  await asked[1].refuse(problem(404));
  await pass(60_000);
  assert.deepEqual([asked.length, drawn], [2, []]);
  want({ text: "c" });
  await turn();
  await asked[2].answer();
  assert.deepEqual(drawn, ["c"]);
});

test("nothing is asked for by a session that may not, nor once it has ended", async (context) => {
  const lacking = planting(context, () => "workspace:read");
  lacking.want({ text: "a" });
  context.mock.timers.reset();
  const ended = planting(context);
  await ended.put("m", { body: "a" });
  ended.want({ of: "message/m", text: "a" });
  await turn();
  ended.want({ text: "b" });
  ended.trees.close();
  await ended.asked[0].answer();
  const kept = ended.trees.known({ of: "message/m", text: "a" });
  assert.deepEqual([lacking.asked.length, ended.asked.length, ended.drawn, kept], [0, 1, [], null]);
});
