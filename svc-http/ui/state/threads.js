// Reads the tasks of the workspace for the board in the background, up to a limit.
//
// Guarantees: unfinished tasks are read first and page by page, so the first cards appear after one request;
// finished tasks follow; each state is read newest first; it stops at 10,000 tasks and says so. If tasks were
// left out, those that match the filter are read, where the server supports it. Not here: updates, which
// arrive as events.

import { mayPass } from "../net/ask.js";
import { MOST_OF } from "./sweep.js";

/**
 * @typedef {{isReading: boolean, isWhole: boolean, problem: import("../net/ask.js").Problem | null}} Progress
 */

const PAGE = 500;
const MOST = 10_000;
/**
 * Maximum tasks that are read by state; few finished ones, until a filter asks for more.
 *
 * @type {[string, number][]}
 */
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
  /** Number of tasks read in all, and whether some may have been evicted in favour of filtered ones. */
  let [count, isThin] = [0, false];
  /** Progress of the read for the current filter. @type {{of: string, progress: Progress} | null} */
  let narrowed = null;

  /**
   * @param {import("../pure/filter.js").Asked} what
   * @param {number} most
   * @param {Progress} of
   * @param {() => boolean} isOver Returns whether the rest is no longer needed.
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
      // All pages get the position of the first: with rising positions the newest tasks, which are read
      // first, would be evicted first.
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
   * Reads the tasks that match a filter if not all tasks were read, and returns the progress.
   *
   * @param {import("../pure/filter.js").Asked | null} what
   * @returns {Progress}
   */
  function narrow(what) {
    if (!what || progress.isReading || progress.isWhole) {
      narrowed = null;
      // Read the tasks again that were evicted while the filter was active.
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
    /** Reads all tasks again because events were missed; the shown ones stay. */
    again() {
      if (progress.isReading) isWantedAgain = true;
      else void start();
    },
    close: () => (isClosed = true),
  };
}
