// What I did lies over what is known, per field and per write, until it is known or refused.

import assert from "node:assert/strict";
import { test } from "node:test";

import { applyAnswer, entity, newWorld, position, restart } from "../../../svc-http/ui/pure/merge.js";
import { accepted, lay, newOverlays, over, pending, refused, settle } from "../../../svc-http/ui/pure/overlay.js";

function world(lsn, priority) {
  const made = newWorld({ member_id: "me", workspace_id: "w" });
  applyAnswer(made, "thread", { id: "t", priority, owner_id: null }, lsn);
  return made;
}
const drawn = (overlays, known) => over(overlays, "thread", entity(known, "thread", "t"));
const laid = (write, field, value) => ({ write, kind: "thread", id: "t", field, value });

test("with nothing over it, an entity is drawn as it is", () => {
  const known = world(1, 0);
  assert.equal(drawn(newOverlays(), known), entity(known, "thread", "t"));
});

test("of two writes to one field the first can be refused, and the second stays", () => {
  const [known, overlays] = [world(1, 0), newOverlays()];
  lay(overlays, laid("a", "priority", 5));
  lay(overlays, laid("b", "priority", 7));
  assert.equal(drawn(overlays, known).priority, 7);
  assert.deepEqual(refused(overlays, "a"), ["thread/t"]);
  assert.equal(drawn(overlays, known).priority, 7);
  assert.deepEqual(refused(overlays, "b"), ["thread/t"]);
  assert.equal(drawn(overlays, known).priority, 0);
  assert.deepEqual(refused(overlays, "b"), []);
});

test("a refusal takes back one field, and what was known meanwhile shows", () => {
  const [known, overlays] = [world(1, 0), newOverlays()];
  lay(overlays, laid("a", "priority", 5));
  lay(overlays, laid("b", "owner_id", "me"));
  applyAnswer(known, "thread", { id: "t", priority: 3, owner_id: null }, 4);
  refused(overlays, "a");
  assert.deepEqual([drawn(overlays, known).priority, drawn(overlays, known).owner_id], [3, "me"]);
  assert.deepEqual(pending(overlays, "thread", "t"), [{ write: "b", field: "owner_id" }]);
});

test("an overlay goes once what is known has come to its answer, and not before", () => {
  const [known, overlays] = [world(1, 0), newOverlays()];
  lay(overlays, laid("a", "priority", 5));
  applyAnswer(known, "thread", { id: "t", priority: 1, owner_id: null }, 9);
  assert.deepEqual(settle(overlays, known), [], "it is not answered");
  accepted(overlays, "a", 10);
  assert.deepEqual(settle(overlays, known), []);
  assert.equal(drawn(overlays, known).priority, 5);
  applyAnswer(known, "thread", { id: "t", priority: 5, owner_id: null }, 10);
  assert.deepEqual(settle(overlays, known), ["thread/t"]);
  assert.deepEqual(pending(overlays, "thread", "t"), []);
});

test("what is stale does not yet say what the write has done", () => {
  const [known, overlays] = [world(1, 0), newOverlays()];
  lay(overlays, laid("a", "priority", 5));
  accepted(overlays, "a", 10);
  restart(known, 12);
  assert.deepEqual(settle(overlays, known), []);
  applyAnswer(known, "thread", { id: "t", priority: 5, owner_id: null }, 12);
  assert.deepEqual(settle(overlays, known), ["thread/t"]);
});

test("over what is not known any more, the log's position counts", () => {
  const [known, overlays] = [world(1, 0), newOverlays()];
  lay(overlays, { write: "a", kind: "message", id: "m", field: "body", value: "x" });
  accepted(overlays, "a", 10);
  assert.deepEqual(settle(overlays, known), []);
  position(known, 10);
  assert.deepEqual(settle(overlays, known), ["message/m"]);
});

test("a value may be made of what was", () => {
  const [known, overlays] = [world(1, 2), newOverlays()];
  lay(
    overlays,
    laid("a", "priority", (before) => before + 1),
  );
  lay(
    overlays,
    laid("b", "priority", (before) => before * 10),
  );
  assert.equal(drawn(overlays, known).priority, 30);
  refused(overlays, "a");
  assert.equal(drawn(overlays, known).priority, 20);
});
