// Who holds what and who waits behind it, also where one cannot see the claim.

import assert from "node:assert/strict";
import { test } from "node:test";

import { heldOf, reposOf, waitingForRepo, waitingForSlot } from "../../../svc-http/ui/pure/conflicts.js";

const END = "2026-01-01T10:00:00Z";
const LATER = "2026-01-01T11:00:00Z";
const claimed = (id, repo, end = END) => ({
  id,
  state: "open",
  assignee_id: `holder of ${id}`,
  claim_lease_id: `lease of ${id}`,
  assignment_expires_at: end,
  footprint: { repo, mode: "exclusive", items: [{ kind: "path", value: "src" }] },
});
const overlap = (value, thread_id, more = {}) => ({
  reason: "overlap",
  item: { kind: "path", value },
  holder: `holder of ${thread_id}`,
  lease_expires_at: END,
  ...(thread_id ? { thread_id } : {}),
  ...more,
});
const waiting = (id, obstacles, repo = "acme/core") => ({ id, footprint: { repo }, obstacles });
const brief = (held) => held.map(({ thread, behind }) => [thread, ...behind.map(({ id, items }) => `${id}: ${items}`)]);

test("what most wait for stands first, then what ends first", () => {
  const threads = [claimed("a", "acme/core", LATER), claimed("b", "acme/core"), claimed("c", "acme/core", LATER)];
  const deferred = [waiting("x", [overlap("src/a", "c")])];
  assert.deepEqual(brief(heldOf({ threads, deferred })), [["c", "x: src/a"], ["b"], ["a"]]);
});

test("a task waits once behind a claim, for all that is held of it", () => {
  const deferred = [waiting("x", [overlap("one", "a"), overlap("two", "a"), overlap("one", "a"), overlap("one", "b")])];
  const threads = [claimed("a", "acme/core"), claimed("b", "acme/core")];
  assert.deepEqual(brief(heldOf({ threads, deferred })), [
    ["a", "x: one,two"],
    ["b", "x: one"],
  ]);
});

test("a claim that one cannot see is one of its holder and its end", () => {
  const hidden = (end) => overlap("docs", null, { holder: "h", lease_expires_at: end });
  const deferred = [waiting("x", [hidden(END)]), waiting("y", [hidden(END)]), waiting("z", [hidden(LATER)])];
  const held = heldOf({ threads: [], deferred });
  assert.deepEqual(brief(held), [
    [null, "x: docs", "y: docs"],
    [null, "z: docs"],
  ]);
  assert.deepEqual(
    held.map(({ holder, until }) => [holder, until]),
    [
      ["h", Date.parse(END)],
      ["h", Date.parse(LATER)],
    ],
  );
});

test("a claim that touches nothing, or has ended, is in nobody's way", () => {
  const threads = [
    { ...claimed("a", "acme/core"), footprint: null },
    { ...claimed("b", "acme/core"), footprint: { repo: null, mode: "shared", items: [] } },
    { ...claimed("c", "acme/core"), claim_lease_id: null, assignee_id: null, assignment_expires_at: null },
  ];
  assert.deepEqual(
    heldOf({ threads, deferred: [waiting("x", [{ reason: "skills", item: null, holder: null, lease_expires_at: null }])] }),
    [],
  );
});

test("a repository is one, however it is spelled", () => {
  const threads = [claimed("a", "Acme/Core"), claimed("b", "acme/mail")];
  const deferred = [waiting("x", [], "acme/core"), waiting("y", [], null)];
  assert.deepEqual(brief(heldOf({ threads, deferred, repo: "ACME/core" })), [["a"]]);
  assert.deepEqual(reposOf({ threads, deferred }), ["Acme/Core", "acme/mail"]);
});

test("who waits for a slot, and who for a repository", () => {
  const full = { reason: "slot-full", item: { kind: "slot", value: "Staging" }, holder: null, lease_expires_at: null };
  const paused = { reason: "repo-paused", item: null, holder: null, lease_expires_at: null };
  const deferred = [waiting("x", [full]), waiting("y", [paused], "Acme/Mail"), waiting("z", [paused], "acme/core")];
  assert.deepEqual(waitingForSlot(deferred, "staging"), ["x"]);
  assert.deepEqual(waitingForSlot(deferred, "gpu"), []);
  assert.deepEqual(waitingForRepo(deferred, "acme/mail"), ["y"]);
});
