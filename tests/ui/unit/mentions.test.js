// Whom a text mentions, before it is sent.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { createAudience } from "../../../svc-http/ui/panels/audience.js";
import { mentionAt } from "../../../svc-http/ui/pure/handles.js";
import { mentionsIn } from "../../../svc-http/ui/pure/mentions.js";

const isKnown = (name) => ["ada", "j.doe", "channel"].includes(name);
const of = (text) => mentionsIn(text, isKnown);

test("a mention is of the longest handle that there is", () => {
  assert.deepEqual(of("@Ada, @j.doe. and @ada: again"), { known: ["ada", "j.doe"], unknown: [] });
});

test("what is nobody's handle is told, each once and without what follows it", () => {
  assert.deepEqual(of("@nobody! @nobody. @ada @j.smith-"), { known: ["ada"], unknown: ["nobody", "j.smith"] });
});

test("what stands in code, in a quote or in an address mentions nobody", () => {
  const text = "`@one` a@two.example\n> @three\n\n```\n@four\n```\n@channel";
  assert.deepEqual(of(text), { known: ["channel"], unknown: [] });
});

test("forms of mentions are read as the service reads them", () => {
  const { handles, forms } = JSON.parse(readFileSync(new URL("data/mentions.json", import.meta.url), "utf8"));
  for (const { text, mentions, unknown = [] } of forms) {
    const found = mentionsIn(text, (name) => handles.includes(name));
    const wanted = { known: mentions, unknown: unknown.map((name) => name.slice(1).toLowerCase()) };
    assert.deepEqual(found, wanted, text);
  }
});

test("every handle of a directory can be mentioned", () => {
  for (const handle of [
    "o'brien@corp.example",
    "_svc_@corp.example",
    "!#$%&'*+/=?^_{|}~-@corp.example",
    "x<y>@corp.example",
    "@ada",
    "ada.",
    "corp/ada",
    "josé@corp.example",
    "иван.петров@пример.рф",
    "שלום",
    "木".repeat(254),
  ])
    for (const [before, after] of [["", ""], ["cc ", ", look"], ["(", ")"], ["", "'s"], ["", "."]]) {
      const found = mentionsIn(`${before}@${handle}${after}`, (name) => name === handle);
      assert.deepEqual(found.known, [handle], `${before}@${handle}${after}`);
    }
});

test("a handle of a directory is completed while it is written, and is no mention of nobody then", () => {
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
    names: { mentions: (/** @type {string} */ handle) => (members.has(handle) ? handle : null) },
  };
  const audience = createAudience(/** @type {any} */ (world), () => ({ channel_id: "c" }));
  for (const handle of handles) {
    for (let length = 1; length <= handle.length; length += 1) {
      const text = `cc/@${handle.slice(0, length)}`;
      const begun = mentionAt(text, text.length);
      assert.equal(begun?.start, 3, text);
      assert.ok(audience.find(begun.word).some((one) => one.text === handle), text);
    }
    assert.deepEqual(audience.missed(`ask @${handle}, or @o'neil@corp.example`), ["o'neil@corp.example"]);
  }
});
