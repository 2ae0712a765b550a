// Modules that come many in a file: each is run once, when it is first needed, wherever it comes from.

import assert from "node:assert/strict";
import { test } from "node:test";

import { openModules } from "../../../svc-http/ui/modules.js";

const ROOT = "http://127.0.0.1/ui/f/0123/";

/** Files by their addresses; a file that is an error cannot be fetched. */
function server(files) {
  const asked = [];
  const fetchFile = async (address) => {
    asked.push(address.slice(ROOT.length));
    const file = files.shift();
    if (file instanceof Error) throw file;
    return { default: file };
  };
  return { asked, fetchFile };
}

const never = () => assert.fail("it is not idle");

test("a module is made once, when it is first needed, and what it needs before it", () => {
  const made = [];
  const module = (name, needs) => (need, _load, address) => {
    const values = needs.map((other) => need(other).value);
    made.push(name);
    return { value: `${name}(${values})`, address };
  };
  const first = { "a.js": module("a", ["b/c.js", "d.js"]), "b/c.js": module("c", ["d.js"]), "d.js": module("d", []), "e.js": never };
  const { need } = openModules(first, ROOT, [], never, never);
  assert.deepEqual(made, []);
  assert.equal(need("a.js").value, "a(c(d()),d())");
  assert.deepEqual(made, ["d", "c", "a"]);
  assert.equal(need("a.js"), need("a.js"));
  assert.equal(need("b/c.js").address, `${ROOT}b/c.js`);
  assert.throws(() => need("constructor"), /no module constructor/);
});

test("a body that fails is not run again, nor is that of who needs it", async () => {
  const run = [];
  const first = {
    "a.js": (need) => (run.push("a"), need("b.js"), assert.fail()),
    "b.js": () => {
      run.push("b");
      throw new Error(`failure ${run.length}`);
    },
  };
  const { need, load } = openModules(first, ROOT, [], never, never);
  for (const name of ["a.js", "a.js", "b.js"]) assert.throws(() => need(name), /failure 2/);
  await assert.rejects(load("a.js"), /failure 2/);
  assert.deepEqual(run, ["a", "b"]);
});

test("files are fetched in their order until a module is there, each once", async () => {
  const { asked, fetchFile } = server([{ "a.js": () => ({ a: 1 }) }, { "b.js": (need) => ({ b: need("a.js").a + 1 }) }]);
  const { load } = openModules({}, ROOT, ["one.js", "two.js"], fetchFile, never);
  const [b, a, again] = await Promise.all([load("b.js"), load("a.js"), load("b.js")]);
  assert.deepEqual([a, b], [{ a: 1 }, { b: 2 }]);
  assert.equal(b, again);
  assert.deepEqual(asked, ["one.js", "two.js"]);
  await assert.rejects(load("c.js"), /no module c\.js/);
});

test("a file that could not be fetched is fetched anew by another address", async () => {
  const { asked, fetchFile } = server([new Error("offline"), new Error("offline"), { "a.js": () => ({ a: 1 }) }]);
  const { load } = openModules({}, ROOT, ["one.js"], fetchFile, never);
  const both = [load("a.js"), load("a.js")];
  for (const one of both) await assert.rejects(one, /offline/);
  await assert.rejects(load("a.js"), /offline/);
  assert.deepEqual(await load("a.js"), { a: 1 });
  assert.deepEqual(asked, ["one.js", "one.js?1", "one.js?2"]);
});

test("what is left is fetched once the page is idle after its first part that was there", async () => {
  const idle = [];
  const { asked, fetchFile } = server([{ "a.js": () => ({}) }, new Error("offline"), { "b.js": never, "c.js": () => ({ c: 1 }) }]);
  const { load } = openModules({}, ROOT, ["one.js", "two.js"], fetchFile, (run) => idle.push(run));
  await load("a.js");
  assert.equal(idle.length, 0, "that part had to be fetched");
  await load("a.js");
  await load("a.js");
  assert.equal(idle.length, 1);
  assert.deepEqual(asked, ["one.js"]);
  await idle[0]();
  assert.deepEqual(asked, ["one.js", "two.js"], "nobody waits for it, so nobody is told that it failed");
  assert.deepEqual(await load("c.js"), { c: 1 });
  assert.deepEqual(asked, ["one.js", "two.js", "two.js?1"]);
  await idle[0]();
  assert.equal(asked.length, 3);
});
