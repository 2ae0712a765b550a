// What is offered while one types the name of a thing, and which thing a name stands for.

import assert from "node:assert/strict";
import { test } from "node:test";

import { called, offered } from "../../../svc-http/ui/pure/pick.js";

/** @param {string} id @param {string} name @param {string} label */
const one = (id, name, label = name) => ({ id, name, label });
const all = [
  one("robot", "robot"),
  one("robo", "robo"),
  one("a", "Docs", "Docs (#one, a)"),
  one("b", "Docs", "Docs (#one, b)"),
  one("c", "docs"),
  one("hash", "#3 of them"),
];
/** @param {import("../../../svc-http/ui/pure/pick.js").Choice[]} some */
const ids = (some) => some.map(({ id }) => id);

test("what is called just so is offered first, however much has the words in its name", () => {
  const many = Array.from({ length: 30 }, (_, at) => one(`m${at}`, `Fix it ${at}`));
  assert.equal(offered([...many, one("it", "fix it")], "Fix it", 20)[0]?.id, "it");
  assert.equal(offered(many, "fix", 20).length, 20);
  assert.deepEqual(ids(offered(all, "@robo", 20)), ["robo", "robot"]);
});

test("a name stands for what is called so, and never for what only has it within", () => {
  assert.deepEqual(ids(called(all, "obot")), []);
  assert.deepEqual(ids(called(all, "@Robo")), ["robo"]);
  assert.deepEqual(ids(called(all, "#3 of them")), ["hash"]);
});

test("of one name are all that are called so, and one by what tells it apart", () => {
  assert.deepEqual(ids(called(all, "Docs")), ["a", "b"]);
  assert.deepEqual(ids(called(all, "docs")), ["c"]);
  assert.deepEqual(ids(called(all, "DOCS")), ["a", "b", "c"]);
  assert.deepEqual(ids(called(all, "Docs (#one, b)")), ["b"]);
});
