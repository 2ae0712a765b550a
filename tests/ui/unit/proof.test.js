// What was found of the log stays told until somebody who sees as much finds it whole.

import assert from "node:assert/strict";
import { test } from "node:test";

const kept = new Map();
globalThis.localStorage = {
  getItem: (name) => kept.get(name) ?? null,
  setItem: (name, value) => kept.set(name, value),
  removeItem: (name) => kept.delete(name),
};
globalThis.window = { addEventListener() {}, removeEventListener() {} };
/** The worker that was made last. */
let worker;
globalThis.Worker = class {
  constructor() {
    worker = this;
  }
  postMessage() {}
  terminate() {}
};

const { createProof } = await import("../../../svc-http/ui/proof.js");

/** A page finds a log broken, or whole. @param {boolean} isWhole Whether it sees all of it. @param {number | null} lsn */
function finds(isWhole, lsn) {
  const proof = createProof({ workspaceId: "w", isWhole: () => isWhole, changed() {} });
  const broken = lsn && { lsn, defect: "content" };
  const state = broken ? "broken" : "whole";
  const report = { state, broken, checked: 9, withheld: 0, floor: 1, head: { lsn: 9, hash: "h" }, pinned: "new" };
  proof.start();
  worker.onmessage({ data: { state, checked: 9, withheld: 0, upTo: 9, head: 9, report, pin: null } });
  proof.close();
}

/** What a page tells that is opened now. */
function toldNow(isWhole) {
  const proof = createProof({ workspaceId: "w", isWhole: () => isWhole, changed() {} });
  const lsn = proof.alarm()?.lsn ?? null;
  proof.close();
  return lsn;
}

test("who sees less neither ends nor takes over the alarm of the whole log", () => {
  finds(true, 5);
  for (const lsn of [null, 7, null]) {
    finds(false, lsn);
    assert.equal(toldNow(false), 5);
  }
  finds(true, null);
  assert.equal(toldNow(true), null);
});
