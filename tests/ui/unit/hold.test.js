// What moves waits for whoever is at it, and then does not wait any longer.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createHold } from "../../../svc-http/ui/view/hold.js";

test("what waits runs once when nothing holds any more, and only the last of it", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  globalThis.matchMedia = () => ({ matches: true });
  globalThis.document = { hasFocus: () => true, activeElement: null };
  let isUnder = true;
  let hasFocus = true;
  const area = { addEventListener: () => {}, matches: () => isUnder, contains: () => hasFocus };
  const hold = createHold(area);
  const ran = [];
  const pass = (ms) => (context.mock.timers.tick(ms), ran.join(" "));
  context.mock.method(performance, "now", () => 1_000_000);
  hold.whenFree(() => ran.push("first"));
  hold.whenFree(() => ran.push("second"));
  assert.equal(pass(10_000), "");
  isUnder = false;
  assert.equal(pass(10_000), "");
  hasFocus = false;
  assert.equal(pass(250), "second");
  assert.equal(pass(10_000), "second");
  hasFocus = true;
  hold.whenFree(() => ran.push("third"), hold.hasPointer);
  assert.equal(pass(250), "second third");
  hold.whenFree(() => ran.push("fourth"));
  hold.drop();
  hasFocus = false;
  assert.equal(pass(10_000), "second third");
});
