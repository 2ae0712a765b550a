// Text of others: what is not seen, or turns text around, is shown, within bounds; and it fits in a line.

import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { oneLine, typed } from "../../../svc-http/ui/pure/line.js";
import { newLeft, shown, shownText } from "../../../svc-http/ui/pure/shown.js";

/** Nodes as a short text. */
const told = (nodes) =>
  nodes.map(({ type, text, count }) => (type === "text" ? text : `<${type} ${text ?? count}>`)).join("");

test("what is not seen, or turns text around, is shown", () => {
  assert.equal(
    told(shown("a\u202eb\u0000c\u200bd\u{e0041}")),
    "a<control U+202E>b<control U+0000>c<control U+200B>d<control U+E0041>",
  );
  for (const char of ["\u180b", "\u180f", "\u2800", "\u{13430}", "\u{1bca0}", "\u{1d173}", "\u{1d17a}"])
    assert.equal(told(shown(char)), `<control U+${char.codePointAt(0).toString(16).toUpperCase()}>`);
  assert.equal(told(shown("\ud83d")), "<control U+D83D>");
  assert.equal(told(shown("👩‍🔧 Überprüfen שלום\tx\ny")), "👩‍🔧 Überprüfen שלום\tx\ny");
  assert.equal(shownText("a\u2066b"), "aU+2066b");
});

test("of a run of hidden characters the first are named and the others counted", () => {
  const nodes = shown(`a${"\u202e".repeat(100_000)}b`);
  assert.equal(nodes.length, 103);
  assert.equal(told(nodes.slice(-3)), "<control U+202E><more 99900>b");
  assert.match(shownText("\u202e".repeat(100_000)), /^(U\+202E){100}\(\+99[,.]900\)$/);
  assert.equal(told(shown("\u202e".repeat(100) + "a")).includes("more"), false);
});

test("of all hidden characters of a body the first are named, the others stand in the text and are counted", () => {
  const left = newLeft();
  const nodes = shown("a\u202e".repeat(1_000), left);
  assert.equal(nodes.filter(({ type }) => type === "control").length, 500);
  assert.deepEqual(nodes.at(-1), { type: "more", count: 500 });
  assert.equal(nodes.at(-2).text, "a\ufffd".repeat(500));
  assert.equal(told(shown("b\u202ec", left)), "b\ufffdc<more 1>");
});

test("of the marks on a letter 8 are drawn and the others counted", () => {
  assert.equal(told(shown("e\u0301\u0302 Việt กี่ क्ष्म्य")), "e\u0301\u0302 Việt กี่ क्ष्म्य");
  assert.equal(told(shown(`e${"\u0301".repeat(8)}x`)), `e${"\u0301".repeat(8)}x`);
  assert.equal(told(shown(`e${"\u0301".repeat(1_008)}x`)), `e${"\u0301".repeat(8)}<more 1000>x`);
  const joined = told(shown(`e${"\u0301\u200d".repeat(500)}`));
  assert.equal(joined, `e${"\u0301\u200d".repeat(4)}<more 992>`);
  assert.equal(told(shown(`e${"\u0301".repeat(9)}\u202e`)), `e${"\u0301".repeat(8)}<more 1><control U+202E>`);
});

test("the marks on a letter are counted across the texts of a body", () => {
  const mark = "\u0301";
  const left = newLeft();
  const on = (text) => told(shown(text, left));
  assert.deepEqual([on(`e${mark.repeat(5)}`), on(mark.repeat(2)), on("")], [`e${mark.repeat(5)}`, mark.repeat(2), ""]);
  assert.equal(on(mark.repeat(4)), `${mark}<more 3>`);
  assert.equal(on(mark.repeat(50)), "<more 50>");
  assert.equal(on(`${mark}\u202ee${mark}`), `<more 1><control U+202E>e${mark}`);
  assert.equal(on(mark.repeat(7)), mark.repeat(7));
  assert.equal(on(`x${mark.repeat(9)}`), `x${mark.repeat(8)}<more 1>`);
  assert.equal(on(mark), "<more 1>");
});

const piece = fc.oneof(
  fc.constantFrom("\u202e", "\u0301", "\u200d", "\ufe0f", "\u034f", "a", "\n", "\ud800", "\u{e0041}"),
  fc.string({ unit: "binary", maxLength: 4 }),
);
const anyText = fc
  .array(fc.tuple(piece, fc.integer({ min: 1, max: 300 })), { maxLength: 20 })
  .map((pieces) => pieces.map(([text, times]) => text.repeat(times)).join(""));

test("of any text nothing hidden is text, no letter has many marks, and every character is there or counted", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const nodes = shown(text);
      assert.ok(nodes.length < 2_000 + text.length / 8);
      let count = 0;
      for (const node of nodes) {
        if (node.type === "more") count += node.count;
        else if (node.type === "control") count += 1;
        else {
          assert.ok(!/[\u0000-\u0008\u200b\u202a-\u202e]|\p{Cs}/u.test(node.text), JSON.stringify(node.text));
          assert.ok(!/[\p{M}\u200c\u200d]{9}/u.test(node.text), JSON.stringify(node.text));
          count += Array.from(node.text.replaceAll("\ufffd", "")).length;
        }
      }
      assert.equal(count, Array.from(text.replaceAll("\ufffd", "")).length);
    }),
    { numRuns: 1_000 },
  );
});

test("a card has the text in one line, as it was written, cut between characters", () => {
  assert.equal(oneLine("# Title\n\n- **a**\t`b`\n"), "# Title - **a** `b`");
  assert.equal(oneLine("word ".repeat(100), 20), "word word word word…");
  assert.equal(oneLine("👍".repeat(30), 10), `${"👍".repeat(9)}…`);
  assert.equal(oneLine("short", 5), "short");
  assert.equal(oneLine("a\u202eb"), "aU+202Eb");
});

test("what is sent begins where its first line begins, and ends with its last word", () => {
  assert.equal(typed("  \n\n\t\n    first\n\n  second \n \n"), "    first\n\n  second");
  assert.equal(typed("  word"), "  word");
  assert.deepEqual([typed(" \n \n"), typed("   "), typed("")], ["", "", ""]);
});
