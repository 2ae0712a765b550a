// Reads the tasks of the workspace for the board, in the background, and stops before there are too many.
//
// Promises: what is open comes first, a page at a time, so that the first cards are there after one read;
// what is done follows; of each the newest come first, at most 10,000 in all, and then it says so. Of what was
// left out all is read that a filter lets through, as far as the service can be asked for that. Leaves out:
// keeping up, which events do.

import { mayPass } from "../net/ask.js";
import { MOST_OF } from "./sweep.js";

/**
 * @typedef {{isReading: boolean, isWhole: boolean, problem: import("../net/ask.js").Problem | null}} Progress
 */

const PAGE = 500;
const MOST = 10_000;
/** How many are read of each state; of what is done few, as long as nobody asks for more. @type {[string, number][]} */
const STATES = [
  ["open", MOST],
  ["in_review", MOST],
  ["closed", 2_000],
];
const RETRY = 5_000;

/**
 * @param {{ask: import("../net/ask.js").Ask, store: import("./store.js").Store}} world
 * @param {() => void} changed
 */
export function readThreads({ ask, store }, changed) {
  /** @type {Progress} */
  const progress = { isReading: true, isWhole: true, problem: null };
  let isClosed = false;
  /** How many were read of all, and whether some of them may be forgotten for what a filter let through. */
  let [count, isThin] = [0, false];
  /** What was read of what is filtered. @type {{of: string, progress: Progress} | null} */
  let narrowed = null;

  /**
   * @param {import("../pure/filter.js").Asked} what
   * @param {number} most
   * @param {Progress} of
   * @param {() => boolean} isOver Whether nobody wants more.
   */
  async function pages({ op, input }, most, of, isOver) {
    /** @type {string | null} */
    let cursor = null;
    let [read, at] = [0, 0];
    do {
      /** @type {Record<string, unknown>} */
      const page = { ...input, newest_first: true, limit: Math.min(PAGE, most), cursor };
      const { body, lsn } = await patient(() => ask(op, page), of, isOver);
      if (isClosed) return;
      // All are known as of the first page, and by events since: so what is forgotten first is not the newest.
      at ||= lsn;
      store.put("thread", body.items, at);
      read += body.items.length;
      if (of === progress) count += body.items.length;
      else isThin ||= store.count("thread") > MOST_OF.thread;
      cursor = body.next_cursor ?? null;
      changed();
    } while (cursor && read < most && !isOver());
    if (cursor) of.isWhole = false;
  }

  /** @template T @param {() => Promise<T>} read @param {Progress} of @param {() => boolean} isOver @returns {Promise<T>} */
  async function patient(read, of, isOver) {
    for (;;) {
      try {
        const answer = await read();
        of.problem = null;
        return answer;
      } catch (problem) {
        of.problem = /** @type {import("../net/ask.js").Problem} */ (problem);
        changed();
        if (isClosed || isOver() || !mayPass(of.problem)) throw problem;
        await new Promise((resume) => setTimeout(resume, RETRY));
      }
    }
  }

  const isFull = () => count >= MOST;

  async function run() {
    [count, isThin] = [0, false];
    for (const [state, most] of STATES) {
      await pages({ op: "list_workspace_threads", input: { state } }, most, progress, isFull);
    }
  }

  /**
   * Reads what a filter lets through, where not all was read, and returns how far that has come.
   *
   * @param {import("../pure/filter.js").Asked | null} what
   * @returns {Progress}
   */
  function narrow(what) {
    if (!what || progress.isReading || progress.isWhole) {
      narrowed = null;
      // What was forgotten meanwhile is shown again.
      if (!what && isThin && !progress.isReading) void start();
      return progress;
    }
    const of = JSON.stringify(what);
    if (narrowed?.of === of) return narrowed.progress;
    const mine = { of, progress: { isReading: true, isWhole: true, problem: null } };
    narrowed = mine;
    const ended = () => ((mine.progress.isReading = false), changed());
    void pages(what, MOST, mine.progress, () => narrowed !== mine).then(ended, ended);
    return mine.progress;
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
    narrow,
    /** Everything was missed: all of it is read anew, under what is shown. */
    again() {
      if (progress.isReading) isWantedAgain = true;
      else void start();
    },
    close: () => (isClosed = true),
  };
}
