// What a range of a list chooses.

import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.document = /** @type {any} */ ({ baseURI: "http://h/ui/", querySelector: () => null, createElement });
globalThis.Node ??= /** @type {any} */ (class {});
const { createChosen } = await import("../../../svc-http/ui/screens/chosen.js");

/** Something that can be put into a page, of which nothing is asked here. */
function createElement() {
  const nothing = () => null;
  const names = ["append", "setAttribute", "getAttribute", "hasAttribute", "removeAttribute", "addEventListener"];
  return { classList: { add() {} }, hidden: true, ...Object.fromEntries(names.map((name) => [name, nothing])) };
}

test("a range chooses what is between, and of a row that is leaving that row alone", () => {
  const keys = ["9", "8", "7", "6", "5", "4"];
  const chosen = createChosen(() => {}, String, /** @type {any} */ (null));
  chosen.choose(/** @type {any} */ (keys), "7", false);
  chosen.choose(/** @type {any} */ (keys), "leaving", true);
  assert.deepEqual([...chosen.ids], ["7", "leaving"]);
  chosen.choose(/** @type {any} */ (keys), "5", true);
  assert.deepEqual([...chosen.ids].sort(), ["5", "6", "7", "leaving"]);
});
