// A press that has to be made twice, and which actions take one.

import assert from "node:assert/strict";
import { test } from "node:test";

import { actions, isTwice } from "../../../svc-http/ui/actions.js";
import { ARMED, createTwice } from "../../../svc-http/ui/view/twice.js";

test("one press is enough for what can be undone", () => {
  const shown = [];
  const { press, isArmed } = createTwice(false, (isArmed) => shown.push(isArmed));
  assert.deepEqual([press(), press(), isArmed()], [true, true, false]);
  assert.deepEqual(shown, []);
});

test("the first press arms, the second counts, and then it begins anew", () => {
  const shown = [];
  const { press, isArmed } = createTwice(true, (isArmed) => shown.push(isArmed));
  assert.deepEqual([press(), isArmed(), press(), isArmed()], [false, true, true, false]);
  assert.equal(press(), false);
  assert.deepEqual(shown, [true, false, true]);
});

test("what is armed and left alone is disarmed", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const shown = [];
  const { press, isArmed } = createTwice(true, (isArmed) => shown.push(isArmed));
  press();
  t.mock.timers.tick(ARMED);
  assert.equal(isArmed(), false);
  assert.equal(press(), false, "it is the first again");
  assert.deepEqual(shown, [true, false, true]);
});

test("what is armed can be disarmed", () => {
  const shown = [];
  const { press, disarm } = createTwice(true, (isArmed) => shown.push(isArmed));
  disarm();
  press();
  disarm();
  assert.deepEqual(shown, [true, false]);
  assert.equal(press(), false);
});

test("what cannot be undone is pressed twice, or has a form to ask for a reason", () => {
  const final = ["transition_thread close", "transition_thread archive", "release_claim", "clear_land_gate"];
  for (const id of final) assert.ok(isTwice(actions.find((action) => action.id === id)), id);
  const unasked = actions.filter(({ confirm, fields }) => confirm === "form" && !fields?.length);
  assert.deepEqual(unasked, []);
});
