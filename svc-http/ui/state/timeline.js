// Messages and events of a task in order: read once, then updated by events.
//
// Guarantees: the task is read page by page, newest first, up to a limit, and new events are added during the
// read; a failed read is retried; a message keeps its position and shows its current text. Not here:
// rendering.

import { createRetry } from "./reading.js";

/**
 * `words`: text of a message that is being sent.
 *
 * @typedef {{key: string, lsn: number, message: string | null, event: any, words?: string}} Item
 */

const PAGE = 500;
const PAGES_MAX = 20;
const ITEMS_MOST = 5_000;
const TRIM_AT = 500;
/** Events that a message itself shows, or that concern one message only. */
const SHOWN_ELSEWHERE = new Set([
  "MessagePosted",
  "MessageEdited",
  "ReactionAdded",
  "ReactionRemoved",
  "BallotCast",
  "ThreadNotice",
]);
/** Ends of claims that are shown by the event which caused them. */
const TOLD_BY_OTHERS = new Set(
  ["result", "closed", "cancelled", "expired", "failed"].map((reason) => `ThreadAssignmentChanged ${reason}`),
);

/**
 * @param {{ask: import("../net/ask.js").Ask, store: import("./store.js").Store}} world
 * @param {string} threadId
 * @param {() => void} changed
 */
export function openTimeline({ ask, store }, threadId, changed) {
  /** @type {Map<number, Item>} */
  const items = new Map();
  const progress = { isReading: false, isWhole: true, hasFailed: false };
  let isClosed = false;
  /** Whether events were missed since the read began. */
  let isMissed = false;

  /** @param {any} event */
  function addEvent(event) {
    const { kind, lsn, payload } = event;
    if (payload.$chain?.thread_id !== threadId) return;
    if (kind === "MessagePosted") addMessage(payload.message_id, lsn);
    else if (!SHOWN_ELSEWHERE.has(kind) && !TOLD_BY_OTHERS.has(`${kind} ${payload.reason}`))
      items.set(lsn, { key: `e${lsn}`, lsn, message: null, event });
  }

  /** @param {string} id @param {number} lsn */
  function addMessage(id, lsn) {
    items.set(lsn, { key: `m${id}`, lsn, message: id, event: null });
  }

  /** Drops the oldest items while more arrive than anyone reads. */
  function trim() {
    if (items.size < ITEMS_MOST + TRIM_AT) return;
    const lsns = [...items.keys()].sort((one, other) => one - other);
    for (const lsn of lsns.slice(0, items.size - ITEMS_MOST)) items.delete(lsn);
    progress.isWhole = false;
  }

  /** @param {string} op @param {(body: any, lsn: number) => void} take */
  async function pages(op, take) {
    /** @type {string | null} */
    let cursor = null;
    let page = 0;
    do {
      /** @type {import("../net/ask.js").Answer} */
      const { body, lsn } = await ask(op, { thread_id: threadId, newest_first: true, limit: PAGE, cursor });
      if (isClosed) return;
      take(body, lsn);
      cursor = body.next_cursor ?? null;
      page += 1;
      changed();
    } while (cursor && page < PAGES_MAX);
    if (cursor) progress.isWhole = false;
  }

  async function run() {
    const words = pages("list_messages", ({ items: rows }, lsn) => {
      store.put("message", rows, lsn);
      for (const { id, lsn: at } of rows) addMessage(id, at);
    });
    const events = pages("list_thread_events", ({ items: rows }) => rows.forEach(addEvent));
    await Promise.all([words, events]);
  }

  async function start() {
    if (progress.isReading) return;
    isMissed = false;
    Object.assign(progress, { isReading: true, hasFailed: false });
    const problem = await run().catch((error) => error);
    Object.assign(progress, { isReading: false, hasFailed: problem !== undefined });
    if (isClosed) return;
    retry.ended(problem);
    if (isMissed) void start();
    changed();
  }
  const retry = createRetry(store, () => void start());

  for (const event of store.events()) addEvent(event);
  void start();

  /** Returns the position of the latest known item. */
  const last = () => Math.max(0, ...items.keys());

  return {
    progress,
    /** @param {{events: any[], dirty: Set<string>}} changes A message may be known before its event. */
    take({ events, dirty }) {
      events.forEach(addEvent);
      for (const key of dirty) {
        const message = key.startsWith("message/") ? store.get("message", key.slice(8)) : undefined;
        if (message?.thread_id === threadId && message.lsn > last()) addMessage(message.id, message.lsn);
      }
      trim();
    },
    /** Returns all known items, oldest first. @returns {Item[]} */
    items: () => [...items.values()].sort((one, other) => one.lsn - other.lsn),
    /** Reads again because events were missed or could not be read. */
    again() {
      isMissed = true;
      void start();
    },
    close() {
      isClosed = true;
      retry.close();
    },
  };
}
