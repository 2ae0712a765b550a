// Reading further, one read at a time.
//
// Promises: what failed is told, and another read may follow, by itself where that may help. Leaves out: what is
// read.

import { mayPass } from "../net/ask.js";

/** @typedef {{isReading: boolean, problem: any}} Progress */

const RETRY = { first: 1_000, most: 30_000 };

/**
 * Has what failed read again: with growing pauses, and at once when the service is heard again.
 *
 * @param {import("./store.js").Store} store
 * @param {() => void} again
 */
export function createRetry(store, again) {
  let failures = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const unwatch = store.index(({ dirty }) => {
    if (failures === 0 || !dirty.has("live/heard")) return;
    clearTimeout(timer);
    again();
  });
  return {
    /** Says how a read went. @param {any} problem None, or why it failed. */
    ended(problem) {
      clearTimeout(timer);
      const isTried = problem && mayPass(problem);
      failures = isTried ? failures + 1 : 0;
      if (isTried) timer = setTimeout(again, Math.min(RETRY.most, RETRY.first * 2 ** failures));
    },
    close() {
      clearTimeout(timer);
      unwatch();
    },
  };
}

/**
 * Reads unless a read is going on.
 *
 * @param {Progress} progress
 * @param {() => Promise<void>} read
 * @param {() => void} ended
 */
export async function readOnce(progress, read, ended) {
  if (progress.isReading) return;
  Object.assign(progress, { isReading: true, problem: null });
  try {
    await read();
  } catch (problem) {
    progress.problem = problem;
  } finally {
    progress.isReading = false;
    ended();
  }
}
