// How long a lease is in all, and what is said of one of which nobody knows it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createLeases } from "../../../svc-http/ui/state/leases.js";

const iso = (secs) => new Date(secs * 1_000).toISOString();
const event = (kind, at, until, thread = "t") => ({
  kind,
  lsn: at,
  payload: { expires_at: until && iso(until), $chain: { at: at * 1_000_000, thread_id: thread } },
});

function leases() {
  let tell;
  const lengthOf = createLeases({ index: (index) => (tell = index) });
  return {
    tell: (...events) => tell({ events }),
    of: (until, id = "t") => lengthOf({ id, assignment_expires_at: until && iso(until) }),
  };
}

test("a lease is as long as the event says that began it, and not as what was left when it was seen", () => {
  const known = leases();
  assert.equal(known.of(600), undefined, "it began before the page was there");
  known.tell(event("ThreadAssignmentChanged", 100, 700));
  assert.equal(known.of(700), 600_000);
  assert.equal(known.of(600), undefined, "another lease");
  known.tell(event("ClaimRenewed", 400, 1_600), event("MessagePosted", 500, 9_000));
  assert.equal(known.of(1_600), 1_200_000);
  known.tell(event("ThreadAssignmentChanged", 500, null));
  assert.equal(known.of(null), undefined);
});

test("no more leases are kept than are ever in sight", () => {
  const known = leases();
  for (let at = 0; at < 1_500; at += 1) known.tell(event("ClaimRenewed", at, at + 60, `t${at}`));
  assert.equal(known.of(61, "t1"), undefined);
  assert.equal(known.of(1_460, "t1400"), 60_000);
});
