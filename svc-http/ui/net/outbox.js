// Own writes: sent once, and told as what they are: on their way, done, refused, or unknown.
//
// Promises: after a lost answer, or a refusal that the write itself may be the cause of, the log is searched
// for what it would have left; it is never sent again unasked. What was refused stays beside its thing until it is dismissed or tried again. Leaves out:
// what the writes are (actions.js), and what lies above the store meanwhile.

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
 * }} Write `isOnce`: it was sent with a token that is not kept, so not again; `about`: the key of the thing beside which it stands; `found`: the event that says,
 * in place of an answer, that it is done; `early`: the position of its event, if that came before the answer; `since`: the position of the log when it was
 * sent; `lsn`: that of its event, or of the answer, once it is done.
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
 * }} Letter `left`: whether an event is what the write would have left; `leavesAny`: nobody can say that of an event, so
 * without an answer any counts that is of no other write.
 */

/** How long what is done is told. */
const TOLD = 8_000;
const LOOK = { first: 1_500, most: 20_000 };
/** What is on its way, or may have happened. */
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
  /** What ends the pause before a write is looked up again. @type {Map<string, () => void>} */
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
   * @returns {Promise<Write>} As it stands at last: done, refused, not sent, or unknown if that was dismissed.
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
   * A browser sends again by itself what was cut off before it was answered: what has happened the first time
   * is then refused.
   *
   * @param {Write} write
   * @param {Problem} problem
   * @param {((event: LogEvent) => boolean) | undefined} left
   */
  async function refused(write, problem, left) {
    const own = left && mayBeDone(problem, memberId) && (await search(write.since, left).catch(() => null));
    if (own) return done(write, own.lsn, null, own);
    // What leaves nothing in the log cannot be looked up there, and may be sent again.
    set(write, { state: problem.isUnknown ? "not-sent" : "refused", problem });
  }

  /**
   * Nobody has said whether it happened: the log says it, however long nobody can be asked.
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
        // A server that comes back may still be at it.
        if (time > 1) pauses.set(write.id, resume);
      });
      pauses.delete(write.id);
      if (!writes.has(write.id)) return;
      try {
        const found = await search(write.since, left);
        if (found) return done(write, found.lsn, null, found);
        // A server that still works on it commits before long; then nothing is on its way any more.
        if (time > 0) return set(write, { state: "not-sent", problem });
      } catch {
        // It cannot be read now either.
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

  /** The log after an event, a page at a time. @param {number} after */
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
   * The last event of one's own that came about while a write was under way: what it has left, where nobody can
   * say of an event whether it is what it would leave.
   *
   * @param {Pick<Write, "since" | "lsn">} write
   * @returns {Promise<LogEvent | null>} Null if it has left none, or if the log cannot be read.
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
    /** Sends a write again that has not happened. @param {string} id */
    again(id) {
      const write = writes.get(id);
      dismiss(id);
      return write ? send(write.letter) : Promise.resolve(null);
    },
    /** The writes that stand beside a thing, oldest first. @param {string} about */
    about: (about) => [...writes.values()].filter((write) => write.about === about),
    /** Whether an action is on its way for a thing. @param {string} action @param {string} about */
    isAsking: (action, about) =>
      [...writes.values()].some(
        (write) => write.action === action && write.about === about && OPEN.has(write.state),
      ),
    /** What is on its way for a thing, or may have happened. @param {string} about */
    open: (about) => [...writes.values()].filter((write) => write.about === about && OPEN.has(write.state)),
    /** The service can be asked again. */
    wake() {
      for (const resume of pauses.values()) resume();
    },
    /** Events came: what is done names its own, not where the log stood. @param {LogEvent[]} events */
    seen(events) {
      for (const write of writes.values()) {
        const { left } = write.letter;
        const isDone = write.state === "done";
        if (!left || !(isDone || OPEN.has(write.state))) continue;
        const last = isDone ? write.lsn : Infinity;
        // The same words may be on their way twice.
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
    /** Whether nobody is there any more to whom an answer could be told. */
    isClosed: () => isClosed,
    close: () => (isClosed = true),
  };
}
