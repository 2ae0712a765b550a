// Runs reads one at a time, and retries failed ones.
//
// Guarantees: a failure is reported, and another read may follow; it follows automatically if the failure may
// be temporary. Not here: what is read.

import { mayPass } from "../net/ask.js";

/** @typedef {{isReading: boolean, problem: any}} Progress */

const RETRY = { first: 1_000, most: 30_000 };

/**
 * Retries a failed read with growing pauses, and immediately when the service is reachable again.
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
    /** Records the outcome of a read. @param {any} problem Empty, or why the read failed. */
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
 * Reads, unless a read is already under way.
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
