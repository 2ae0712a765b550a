// What happened, in words: numbers have their units, and one of a thing is not several.

import assert from "node:assert/strict";
import { test } from "node:test";

import { duration, money } from "../../../svc-http/ui/pure/format.js";
import { eventParts } from "../../../svc-http/ui/strings/en.js";

const said = (kind, payload) => eventParts({ kind, payload }).join("");
const NONE = { max_tokens: null, max_usd_micros: null, max_turns: null, max_wall_secs: null, max_attempts: null };

test("a budget is told in its units", () => {
  const budget = { ...NONE, max_tokens: 400_000, max_usd_micros: 2_500_000, max_wall_secs: 14_400, max_attempts: 1 };
  const [paid, time] = [money(2_500_000), duration(14_400_000)];
  assert.equal(said("ThreadBudgetSet", budget), `set the budget: 400,000 tokens, ${paid}, ${time}, 1 attempt`);
  assert.equal(said("ThreadBudgetSet", NONE), "removed the budget");
});

test("usage is told in numbers that one can read", () => {
  assert.equal(said("UsageReported", { tokens: 148_000, turns: 1 }), "reported 148,000 tokens and 1 turn");
  assert.equal(said("UsageReported", { tokens: 1 }), "reported 1 token and 0 turns");
});
