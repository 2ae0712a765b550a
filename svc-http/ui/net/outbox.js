// The user's writes: sends each once, and tracks it as under way, done, refused or unknown.
//
// Guarantees: after a lost answer, or a refusal that the write itself may have caused, the log is searched
// for its event; a write is never sent again unasked; a refused write stays with its entity until the user
// dismisses or retries it. Not here: the actions (actions.js), and optimistic changes in the store.

import { mayBeDone } from "../pure/why.js";
import { Problem } from "./ask.js";

/** @typedef {import("./ask.js").Ask} Ask */
/** @typedef {import("./ask.js").Answer} Answer */
/** @typedef {{lsn: number, kind: string, payload: any, message?: any}} LogEvent */
/** @typedef {"asking" | "unknown" | "refused" | "not-sent" | "done"} WriteState */
/**
 * @typedef {{
 *   id: string,
 *   action: string,
 *   op: string,
 *   about: string,
 *   input: Record<string, unknown>,
 *   state: WriteState,
 *   since: number,
 *   lsn: number,
 *   body: any,
 *   found: LogEvent | null,
 *   early: number,
 *   problem: Problem | null,
 *   letter: Letter,
 *   isOnce: boolean,
 * }} Write `isOnce`: sent with a token that is not stored, so it cannot be sent again; `about`: key of the
 * entity that shows the write; `found`: the event that confirmed the write in place of an answer; `early`:
 * position of its event, if that arrived before the answer; `since`: position of the log when it was sent;
 * `lsn`: once it is done, the position of its event or of the answer.
 */
/**
 * @typedef {{
 *   action: string,
 *   op: string,
 *   about: string,
 *   input: Record<string, unknown>,
 *   token?: string,
 *   left?: (event: LogEvent) => boolean,
 *   leavesAny?: boolean,
 * }} Letter `left`: whether an event is the result of the write; `leavesAny`: no such test exists, so without
 * an answer any own event counts that no other write caused.
 */

/** Milliseconds that a finished write stays listed. */
const TOLD = 8_000;
const LOOK = { first: 1_500, most: 20_000 };
/** States of writes that are under way or may have happened. */
const OPEN = new Set(["asking", "unknown"]);

/**
 * @param {{
 *   ask: Ask,
 *   lsn: () => number,
 *   memberId: string,
 *   changed: (write: Write) => void,
 * }} setting
 */
export function createOutbox({ ask, lsn, memberId, changed }) {
  /** @type {Map<string, Write>} */
  const writes = new Map();
  /** Functions that end the pause before the next search, by write. @type {Map<string, () => void>} */
  const pauses = new Map();
  let count = 0;
  let isClosed = false;

  /** @param {Write} write @param {Partial<Write>} change */
  function set(write, change) {
    Object.assign(write, change);
    changed(write);
  }

  /**
   * @param {Letter} letter
   * @returns {Promise<Write>} As it ends: done, refused, not sent, or unknown if the user dismissed it.
   */
  async function send(letter) {
    const { action, op, about, input, token, left, leavesAny } = letter;
    for (const [id, old] of writes)
      if (old.action === action && old.about === about && !OPEN.has(old.state)) writes.delete(id);
    const id = `${action} ${(count += 1)}`;
    /** @type {Write} */
    const write = {
      id,
      action,
      op,
      about,
      input,
      state: "asking",
      since: lsn(),
      lsn: 0,
      body: null,
      found: null,
      early: 0,
      problem: null,
      letter: { ...letter, token: undefined },
      isOnce: token !== undefined,
    };
    writes.set(id, write);
    changed(write);
    try {
      const answer = await ask(op, input, token ? { token, isBeside: true } : {});
      done(write, answer.lsn, answer.body);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      const trace = left ?? (leavesAny && ((event) => isOfNoOther(write, event)));
      if (error.isUnknown && trace) await lookUp(write, error, trace);
      else await refused(write, error, left);
    }
    return write;
  }

  /** @param {Write} write @param {number} at @param {any} body @param {LogEvent | null} [found] */
  function done(write, at, body, found = null) {
    const lsn = write.early && write.early <= at ? write.early : at;
    set(write, { state: "done", lsn, body, found, problem: null });
    setTimeout(() => {
      if (write.state === "done") dismiss(write.id);
    }, TOLD);
  }

  /**
   * Handles a refusal. A browser may repeat an interrupted request by itself; if the first attempt succeeded,
   * the server refuses the second, so the log is searched for the first.
   *
   * @param {Write} write
   * @param {Problem} problem
   * @param {((event: LogEvent) => boolean) | undefined} left
   */
  async function refused(write, problem, left) {
    const own = left && mayBeDone(problem, memberId) && (await search(write.since, left).catch(() => null));
    if (own) return done(write, own.lsn, null, own);
    // A write without an event cannot be found in the log, and may be sent again.
    set(write, { state: problem.isUnknown ? "not-sent" : "refused", problem });
  }

  /**
   * Searches the log for a write without an answer, until the log can be read.
   *
   * @param {Write} write
   * @param {Problem} problem
   * @param {(event: LogEvent) => boolean} left
   */
  async function lookUp(write, problem, left) {
    set(write, { state: "unknown", problem });
    for (let time = 0; !isClosed && writes.has(write.id); time += 1) {
      await new Promise((/** @type {(value?: unknown) => void} */ resume) => {
        setTimeout(resume, Math.min(LOOK.most, LOOK.first * 2 ** time));
        // Do not cut the first pauses short: a server that has just recovered may still be running the
        // request.
        if (time > 1) pauses.set(write.id, resume);
      });
      pauses.delete(write.id);
      if (!writes.has(write.id)) return;
      try {
        const found = await search(write.since, left);
        if (found) return done(write, found.lsn, null, found);
        // A server that still runs the request commits soon, so after a second search the write did not
        // happen.
        if (time > 0) return set(write, { state: "not-sent", problem });
      } catch {
        // The log cannot be read either; try again after the pause.
      }
    }
  }

  /** @param {number} after @param {(event: LogEvent) => boolean} left @returns {Promise<LogEvent | null>} */
  async function search(after, left) {
    for await (const events of pages(after)) {
      const found = events.find((event) => isOwn(event) && left(event));
      if (found) return found;
    }
    return null;
  }

  /** Yields the events after a position, page by page. @param {number} after */
  async function* pages(after) {
    let afterId = after;
    for (let page = 0; page < 20; page += 1) {
      const { body } = await ask("list_events", { after_id: afterId, limit: 500 });
      yield /** @type {LogEvent[]} */ (body.items);
      if (!body.next_cursor) return;
      afterId = body.after_id;
    }
  }

  /**
   * Returns the user's last event while a write was under way, as the result of a write whose event cannot be
   * recognized.
   *
   * @param {Pick<Write, "since" | "lsn">} write
   * @returns {Promise<LogEvent | null>} Null if there is no such event, or if the log cannot be read.
   */
  async function leftBy({ since, lsn: end }) {
    let last = null;
    try {
      for await (const events of pages(since)) {
        last = events.findLast((event) => event.lsn <= end && isOwn(event)) ?? last;
        if ((events.at(-1)?.lsn ?? end) >= end) break;
      }
      return last;
    } catch {
      return null;
    }
  }

  /** @param {Write} write @param {LogEvent} event */
  function isOfNoOther(write, event) {
    return ![...writes.values()].some((other) => other !== write && other.letter.left?.(event));
  }

  /** @param {LogEvent} event */
  function isOwn({ payload }) {
    const { actor_id, subject_id } = payload.attribution ?? {};
    return actor_id === memberId || subject_id === memberId;
  }

  /** @param {string} id */
  function dismiss(id) {
    const write = writes.get(id);
    if (!write || !writes.delete(id)) return;
    pauses.get(id)?.();
    changed(write);
  }

  return {
    send,
    dismiss,
    leftBy,
    /** Sends a write again that did not happen. @param {string} id */
    again(id) {
      const write = writes.get(id);
      dismiss(id);
      return write ? send(write.letter) : Promise.resolve(null);
    },
    /** Returns the writes that concern an entity, oldest first. @param {string} about */
    about: (about) => [...writes.values()].filter((write) => write.about === about),
    /**
     * Returns whether an action on an entity is under way or unconfirmed.
     *
     * @param {string} action
     * @param {string} about
     */
    isAsking: (action, about) =>
      [...writes.values()].some(
        (write) => write.action === action && write.about === about && OPEN.has(write.state),
      ),
    /** Returns the writes on an entity that are under way or unconfirmed. @param {string} about */
    open: (about) => [...writes.values()].filter((write) => write.about === about && OPEN.has(write.state)),
    /** Ends all pauses, because the service is reachable again. */
    wake() {
      for (const resume of pauses.values()) resume();
    },
    /**
     * Matches events to writes, so that a finished write has the position of its own event.
     *
     * @param {LogEvent[]} events
     */
    seen(events) {
      for (const write of writes.values()) {
        const { left } = write.letter;
        const isDone = write.state === "done";
        if (!left || !(isDone || OPEN.has(write.state))) continue;
        const last = isDone ? write.lsn : Infinity;
        // Two identical writes may be under way; one event belongs to only one of them.
        const isOfAnother = (/** @type {LogEvent} */ event) =>
          [...writes.values()].some((other) => other !== write && other.early === event.lsn);
        const isIts = (/** @type {LogEvent} */ event) =>
          event.lsn > write.since && event.lsn <= last && isOwn(event) && left(event) && !isOfAnother(event);
        const own = events.find(isIts);
        if (!own) continue;
        if (!isDone) write.early ||= own.lsn;
        else if (own.lsn !== write.lsn) set(write, { lsn: own.lsn });
      }
    },
    all: () => [...writes.values()],
    /** Whether the session has ended, so that no answer can be shown. */
    isClosed: () => isClosed,
    close: () => (isClosed = true),
  };
}
