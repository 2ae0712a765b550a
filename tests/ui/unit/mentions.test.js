// Whom a text mentions, before it is sent.

import assert from "node:assert/strict";
import { test } from "node:test";

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
