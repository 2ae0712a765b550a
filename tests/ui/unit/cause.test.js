// Since when something needs somebody, as far as events say it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createCauses } from "../../../svc-http/ui/pure/cause.js";

const event = (kind, at, payload = {}, thread = "t") => ({
  ...{ lsn: at, kind, prev_hash: "", content_hash: "" },
  payload: { ...payload, $chain: { at: at * 1_000_000, workspace_id: "w", thread_id: thread } },
});
const no = () => false;

test("a review is awaited from the last event that asks for it", () => {
  const causes = createCauses("me");
  for (const told of [
    event("ReviewerAdded", 1, { member_id: "other" }),
    event("ThreadStateChanged", 2, { action: "close" }),
    event("MessagePosted", 3),
    event("constructor", 3),
  ]) {
    causes.note(told, no);
    assert.equal(causes.of("review", "t"), null, told.kind);
  }
  causes.note(event("ReviewerAdded", 4, { member_id: "me" }), no);
  assert.equal(causes.of("review", "t"), 4_000);
  causes.note(event("ThreadStateChanged", 5, { action: "start_review" }), no);
  assert.equal(causes.of("review", "t"), 5_000);
  causes.note(event("ThreadResultSet", 6), () => true);
  assert.equal(causes.of("review", "t"), 6_000);
  assert.equal(causes.of("review", "other"), null);
});

test("little is left of a budget from the report before it was little, not from those after it", () => {
  const causes = createCauses("me");
  causes.note(event("UsageReported", 1), no);
  causes.note(event("UsageReported", 2), no);
  causes.note(event("UsageReported", 3), (key) => key === "budget/t");
  assert.equal(causes.of("budget", "t"), 2_000);
});

test("no more are kept than are ever in sight", () => {
  const causes = createCauses("me");
  for (let at = 0; at < 1_500; at += 1) causes.note(event("ThreadResultSet", at, {}, `t${at}`), no);
  assert.equal(causes.of("review", "t1"), null);
  assert.equal(causes.of("review", "t1400"), 1_400_000);
});
