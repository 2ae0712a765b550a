// Reads the tasks of the workspace for the board, in the background, and stops before there are too many.
//
// Promises: what is open comes first, a page at a time, so that the first cards are there after one read;
// what is done follows, the newest first; at most 10,000 in all, and then it says so. Leaves out: keeping up,
// which events do.

import { mayPass } from "../net/ask.js";

/**
 * @typedef {{isReading: boolean, isWhole: boolean, problem: import("../net/ask.js").Problem | null}} Progress
 */

const PAGE = 500;
const MOST = 10_000;
/** What is done, as long as nobody asks for more. */
const DONE = 2_000;
const RETRY = 5_000;

/**
 * @param {{ask: import("../net/ask.js").Ask, store: import("./store.js").Store}} world
 * @param {() => void} changed
 */
export function readThreads({ ask, store }, changed) {
  /** @type {Progress} */
  const progress = { isReading: true, isWhole: true, problem: null };
  let isClosed = false;

  /** @param {string} op @param {Record<string, unknown>} input @param {number} most */
  async function pages(op, input, most) {
    /** @type {string | null} */
    let cursor = null;
    let count = 0;
    do {
      /** @type {{body: any, lsn: number}} */
      const { body, lsn } = await patient(() => ask(op, { ...input, limit: Math.min(PAGE, most), cursor }));
      if (isClosed) return;
      store.put("thread", body.items, lsn);
      count += body.items.length;
      cursor = body.next_cursor ?? null;
      changed();
    } while (cursor && count < most && store.count("thread") < MOST);
    if (cursor) progress.isWhole = false;
  }

  /** @template T @param {() => Promise<T>} read @returns {Promise<T>} */
  async function patient(read) {
    for (;;) {
      try {
        const answer = await read();
        progress.problem = null;
        return answer;
      } catch (problem) {
        progress.problem = /** @type {import("../net/ask.js").Problem} */ (problem);
        changed();
        if (isClosed || !mayPass(progress.problem)) throw problem;
        await new Promise((resume) => setTimeout(resume, RETRY));
      }
    }
  }

  async function run() {
    for (const state of ["open", "in_review"]) await pages("list_workspace_threads", { state }, MOST);
    await pages("list_workspace_threads", { state: "closed", newest_first: true }, DONE);
  }

  let isWantedAgain = false;
  async function start() {
    Object.assign(progress, { isReading: true, isWhole: true });
    await run().catch(() => {});
    if (isClosed) return;
    if (isWantedAgain) {
      isWantedAgain = false;
      return void start();
    }
    progress.isReading = false;
    changed();
  }

  void start();
  return {
    progress,
    /** Everything was missed: all of it is read anew, under what is shown. */
    again() {
      if (progress.isReading) isWantedAgain = true;
      else void start();
    },
    close: () => (isClosed = true),
  };
}
