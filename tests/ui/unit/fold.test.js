// Of a long body the beginning is shown, of its text as of its tree.

import assert from "node:assert/strict";
import { test } from "node:test";

import { headFor, headOf, headOfTree, linesIn, newRoom } from "../../../svc-http/ui/pure/fold.js";

const isLong = (text) => headFor(text) !== null;
const HEAD = newRoom().head;

test("a body is long from 200 lines or 20 kB on", () => {
  assert.equal(isLong("x\n".repeat(200)), false);
  assert.equal(isLong("x\n".repeat(201)), true);
  assert.equal(isLong("\n".repeat(300)), true);
  assert.equal(isLong("x".repeat(20_000)), false);
  assert.equal(isLong("x".repeat(20_001)), true);
  assert.equal(isLong("あ".repeat(6_667)), true);
  assert.equal(linesIn("a\nb\n"), 2);
});

test("texts that stand together have the room of one, and so have their beginnings", () => {
  const room = newRoom();
  const lines = (count) => headFor("x\n".repeat(count), room);
  assert.deepEqual([lines(150), lines(50), lines(1)], [null, null, HEAD]);
  assert.deepEqual([lines(30), lines(30)], [{ lines: 39, chars: 3_998 }, { lines: 9, chars: 3_938 }]);
  const last = lines(300);
  assert.deepEqual([last.lines, headOf("x\nx", last), headOfTree([{ type: "paragraph", children: [] }], last)], [0, "", []]);
});

test("the beginning of a text is its first lines, cut between characters", () => {
  assert.equal(headOf("x\n".repeat(300), HEAD).split("\n").length, 40);
  assert.equal(headOf("👍".repeat(10_000), HEAD), "👍".repeat(4_000));
});

const text = (text) => ({ type: "text", text });

test("the beginning of a tree is cut where so much was shown", () => {
  const paragraphs = Array.from({ length: 300 }, (_, at) => ({ type: "paragraph", children: [text(`line ${at}`)] }));
  assert.deepEqual(headOfTree(paragraphs, HEAD), paragraphs.slice(0, 40));
  const code = { type: "code_block", language: "sh", text: "x\n".repeat(300) };
  const [only, ...none] = headOfTree([code, ...paragraphs], HEAD);
  assert.deepEqual([only.language, only.text.split("\n").length, none.length], ["sh", 40, 0]);
  assert.equal(only.whole, code.text);
  const table = { type: "table", align: [], children: Array.from({ length: 5_000 }, () => ({ type: "row", children: [] })) };
  assert.equal(headOfTree([table], HEAD)[0].children.length, 40);
  const deep = { type: "list", children: [{ type: "item", checked: true, children: [text("y".repeat(9_000)), text("z")] }] };
  const item = headOfTree([deep], HEAD)[0].children[0];
  assert.deepEqual([item.checked, item.children.length, item.children[0].text.length], [true, 1, 4_000]);
});

test("what is beside a fence counts as the code below it", () => {
  const head = (node, chars = HEAD.chars) => headOfTree([{ type: "code_block", text: "code", ...node }], { lines: 40, chars })[0];
  assert.deepEqual([head({ language: "sh" }).info, head({ language: "sh" }).text], ["sh", "code"]);
  const long = head({ language: "sh", info: "sh ".repeat(9_000) });
  assert.deepEqual([long.info.length, long.text, long.whole, long.language], [4_000, "", "code", "sh"]);
  assert.deepEqual([head({ language: "", info: "ab c" }, 6).info, head({ language: "", info: "ab c" }, 6).text], ["ab c", "co"]);
  assert.equal(head({ language: "x".repeat(9_000) }).info.length, 4_000);
});
