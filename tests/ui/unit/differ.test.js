// Where two texts differ, by lines.

import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { differ } from "../../../svc-http/ui/pure/differ.js";

const CASES = [
  ["", "", "", "", "", ""],
  ["a\nb\nc", "a\nB\nc", "a\n", "b\n", "B\n", "c"],
  ["a\nb", "a\nb\nc", "a\n", "b", "b\nc", ""],
  ["a\na\n", "a\n", "a\n", "a\n", "", ""],
  ["x\ny\n", "", "", "x\ny\n", "", ""],
];

for (const [one, other, before, was, is, after] of CASES) {
  test(`${JSON.stringify(one)} and ${JSON.stringify(other)}`, () => {
    assert.deepEqual(differ(one, other), { before, one: was, other: is, after });
  });
}

test("both texts are put together again from their parts", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "\n") });
  fc.assert(
    fc.property(text, text, (one, other) => {
      const parts = differ(one, other);
      assert.equal(parts.before + parts.one + parts.after, one);
      assert.equal(parts.before + parts.other + parts.after, other);
      if (one === other) assert.equal(parts.one + parts.other, "");
    }),
  );
});
