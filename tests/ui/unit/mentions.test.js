// Completing a mention while it is written.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createAudience } from "../../../svc-http/ui/panels/audience.js";
import { mentionAt, writtenHandle } from "../../../svc-http/ui/pure/handles.js";

test("what is being mentioned", () => {
  assert.deepEqual(mentionAt("hello @Wo", 9), { start: 6, end: 9, word: "wo" });
  assert.deepEqual(mentionAt("@", 1), { start: 0, end: 1, word: "" });
  assert.deepEqual(mentionAt("hello @wo and", 9)?.word, "wo");
  for (const [text, word] of [
    ["@O'Bri", "o'bri"],
    ["ask (@o'brien@corp.ex", "o'brien@corp.ex"],
    ["cc/@ada+te", "ada+te"],
    ["@ada/@bo", "bo"],
    ["请@a", "a"],
    ["@田", "田"],
    ["\n@josé", "josé"],
  ])
    assert.equal(mentionAt(text, text.length)?.word, word, text);
  for (const text of ["a@b", "hello wo", "@a b", "", "o'brien@corp", "https://x.example/@a", "src/lib/@a", "\\@a"])
    assert.equal(mentionAt(text, text.length), null, text);
  assert.equal(writtenHandle("a`b\\c@d"), "a\\`b\\\\c@d");
});

test("a handle of a directory is completed while it is written", () => {
  const handles = ["o'brien@corp.example", "ada+test@corp.example", "josé@corp.example", "田中", "corp/ada", "ada"];
  const members = new Map(handles.map((handle) => [handle, { id: handle, handle, display_name: null }]));
  const store = {
    count: () => members.size,
    all: () => [...members.values()],
    get: (/** @type {string} */ kind, /** @type {string} */ id) => (kind === "member" ? members.get(id) : undefined),
  };
  const world = {
    store,
    reads: { wish: () => ({ set: () => {}, close: () => {} }) },
  };
  const audience = createAudience(/** @type {any} */ (world), () => ({ channel_id: "c" }));
  for (const handle of handles) {
    for (let length = 1; length <= handle.length; length += 1) {
      const text = `cc/@${handle.slice(0, length)}`;
      const begun = mentionAt(text, text.length);
      assert.equal(begun?.start, 3, text);
      assert.ok(audience.find(begun.word).some((one) => one.text === handle), text);
    }
  }
});
