// What is left of commands, and which of them Enter takes.

import assert from "node:assert/strict";
import { test } from "node:test";

import { narrowed } from "../../../svc-http/ui/pure/narrow.js";

const title = "To be closed by whoever claims it";
const entries = [
  { label: "Go to Channels", name: "Channels", note: "Place" },
  { label: "Claim", note: title },
  { label: "Report usage", note: title },
  { label: "Close", note: title },
  { label: "Auto-close of tasks", note: "set_close", op: "set_close" },
  { label: "End a vote", note: "close_vote", op: "close_vote" },
  { label: "Follow", note: "Überblick" },
];

/** @param {string} text */
const labels = (text) => {
  const { named, about } = narrowed(entries, text);
  return [named, about].map((some) => some.map(({ label }) => label));
};

test("what is called as is typed stands before what only has the words said about it", () => {
  assert.deepEqual(labels("close"), [
    ["Close", "Auto-close of tasks", "End a vote"],
    ["Claim", "Report usage"],
  ]);
  assert.deepEqual(labels("CHANNELS"), [["Go to Channels"], []]);
  assert.deepEqual(labels("close vote"), [["End a vote"], []]);
  assert.deepEqual(labels("claim to be"), [[], ["Claim"]].with(1, ["Claim", "Report usage", "Close"]));
  assert.deepEqual(labels("uber"), [[], ["Follow"]]);
  assert.deepEqual(labels("nothing of it"), [[], []]);
  assert.equal(labels("")[0].length, entries.length);
});
