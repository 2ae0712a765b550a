// Tasks stand in their lanes in whatever order what decides that becomes known.

import assert from "node:assert/strict";
import { test } from "node:test";

import { parseTyped } from "../../../svc-http/ui/pure/filter.js";
import { createBoard } from "../../../svc-http/ui/state/board.js";

/** A store that has what it is given, and a board on it. */
function setting() {
  const kept = new Map();
  const store = {
    get: (kind, id) => kept.get(`${kind}/${id}`),
    all: (kind) => [...kept].filter(([key]) => key.startsWith(`${kind}/`)).map(([, entity]) => entity),
  };
  const board = createBoard(store, { member_id: "me" });
  const arrives = (...entities) => {
    const dirty = new Set();
    for (const [kind, entity] of entities) dirty.add(`${kind}/${entity.id}`) && kept.set(`${kind}/${entity.id}`, entity);
    board.update({ dirty, gone: new Set(), events: [] });
  };
  return { board, arrives };
}

const task = (id, fields) => ["thread", { id, state: "open", channel_id: "c1", priority: 0, created_lsn: 1, ...fields }];

test("a filter finds by a name that becomes known later", () => {
  for (const [typed, named] of [
    ["in:general", ["channel", { id: "c1", name: "general" }]],
    ["@ada", ["member", { id: "m1", handle: "ada" }]],
  ]) {
    const { board, arrives } = setting();
    board.setFilter(parseTyped(typed));
    arrives(task("t1", { assignee_id: "m1" }), task("t2", { channel_id: "c2", assignee_id: "m2" }));
    assert.deepEqual([board.laneOf("t1"), board.laneOf("t2")], [null, null], typed);
    arrives(named);
    assert.ok(board.laneOf("t1"), typed);
    assert.equal(board.laneOf("t2"), null, typed);
  }
});

test("what is done stands by its closing, whatever becomes known first and however much at once", () => {
  const { board, arrives } = setting();
  const done = (id, lsn) => task(id, { state: "closed", lsn });
  arrives(...["a", "b", "c", "d"].map((id, at) => done(id, at)));
  assert.deepEqual(board.ids("done"), ["d", "c", "b", "a"]);
  const closing = (id, lsn) => ["closing", { id, lsn }];
  arrives(closing("d", 11), closing("a", 14), closing("c", 12), closing("b", 13));
  assert.deepEqual(board.ids("done"), ["a", "b", "c", "d"]);
});

test("what stands in a channel that is found to be a direct message is no task", () => {
  const { board, arrives } = setting();
  arrives(task("t1"));
  assert.ok(board.laneOf("t1"));
  arrives(["channel", { id: "c1", kind: "dm" }]);
  assert.equal(board.laneOf("t1"), null);
});
