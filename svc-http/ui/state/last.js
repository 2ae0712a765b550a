// The last events of each member, from the recent part of the log.
//
// Guarantees: the last 2,000 positions are read, with retries, and new events are added; the first position
// that was read is reported, so an empty result is not mistaken for "never". Not here: presence, which no
// event reports.

import { createRetry } from "./reading.js";

/** @typedef {import("../pure/types.js").LogEvent} LogEvent */

/** Number of log positions that are read, and maximum events that are kept per member. */
const BACK = 2_000;
const KEPT = 20;

/**
 * @param {{
 *   store: import("./store.js").Store,
 *   ask: import("../net/ask.js").Ask,
 *   reads: import("./reads.js").Reads,
 * }} setting
 */
export function createLast({ store, ask, reads }) {
  /** Events by member, newest first. @type {Map<string, LogEvent[]>} */
  const byMember = new Map();
  let from = Number.POSITIVE_INFINITY;
  let isClosed = false;

  /** @param {LogEvent} event */
  function note(event) {
    const { actor_id: actor, subject_id: subject } = event.payload.attribution ?? {};
    for (const id of new Set([actor, subject])) if (id) insert(id, event);
  }

  /** @param {string} id @param {LogEvent} event */
  function insert(id, event) {
    const events = byMember.get(id) ?? [];
    const at = events.findIndex(({ lsn }) => lsn <= event.lsn);
    if (at >= 0 && events[at]?.lsn === event.lsn) return;
    events.splice(at < 0 ? events.length : at, 0, event);
    byMember.set(id, events.slice(0, KEPT));
  }

  async function look() {
    const { body: room } = await ask("get_room");
    const after = Math.max(room.head.lsn - BACK, room.floor - 1, 0);
    const { body } = await reads.pages("list_events", { after_id: after }, BACK);
    body.items.forEach(note);
    from = Math.min(from, after + 1);
    store.touch(["list/last"]);
  }

  async function read() {
    const problem = await look().catch((error) => error);
    if (!isClosed) retry.ended(problem);
  }
  const retry = createRetry(store, () => void read());

  store.events().forEach(note);
  const unwatch = store.index(({ events, lists }) => {
    events.forEach(note);
    if (lists.has("last")) void read();
  });
  void read();

  return {
    /** Returns the latest events of a member, newest first. @param {string} id */
    of: (id) => byMember.get(id) ?? [],
    /** Returns the first position that was read, or null before the first read. */
    from: () => (Number.isFinite(from) ? from : null),
    close() {
      isClosed = true;
      retry.close();
      unwatch();
    },
  };
}
