// A diff is told line by line, and what was taken out stands beside what was put in for it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { linesOf, rowsOf } from "../../../svc-http/ui/pure/diff.js";

const kinds = (text) => linesOf(text, 2000).lines.map(({ kind }) => kind);

const DIFF = `diff --git a/a.sql b/a.sql
index 1..2 100644
--- a/a.sql
+++ b/a.sql
@@ -1,4 +1,4 @@ create
 one
--- two
-three
+++ four
 five
@@ -9 +9,2 @@
-x
+y
+z
\\ No newline at end of file
`;

test("each line is what its place says", () => {
  assert.deepEqual(kinds(DIFF), [
    ...["head", "head", "head", "head"],
    ...["hunk", "same", "del", "del", "add", "same"],
    ...["hunk", "del", "add", "add", "head"],
  ]);
});

test("without heads, and with wrong counts, lines are told by their signs", () => {
  assert.deepEqual(kinds("-a\n+b\n c\n\nd"), ["del", "add", "same", "same", "same"]);
  assert.deepEqual(kinds("@@ -1 +1 @@\n-a\n-b\n+c\ndiff --git a/x b/x\n--- a/x\n+++ b/x"), [
    ...["hunk", "del", "del", "add"],
    ...["head", "head", "head"],
  ]);
  assert.deepEqual(kinds(""), ["same"]);
});

test("nothing of it is lost, however long it is", () => {
  const text = "+x\n".repeat(50_000);
  const { lines, rest } = linesOf(text, 2000);
  assert.equal(lines.length, 2_000);
  assert.equal([...lines.map(({ text }) => text), rest].join("\n"), text.trimEnd());
});

test("what was taken out stands beside what was put in", () => {
  const told = rowsOf(linesOf(DIFF, 2000).lines).map((row) =>
    "both" in row ? row.both.text.slice(0, 5) : `${row.left?.text ?? ""}|${row.right?.text ?? ""}`,
  );
  assert.deepEqual(told, [
    ...["diff ", "index", "--- a", "+++ b", "@@ -1"],
    ...[" one| one", "--- two|+++ four", "-three|", " five| five"],
    ...["@@ -9", "-x|+y", "|+z", "\\ No "],
  ]);
});
