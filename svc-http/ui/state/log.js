// The events of the log, newest first: read backwards on demand, and extended as events happen.
//
// Guarantees: progress is reported by position, even where no event matches the filter; a failed read can be
// retried. Not here: matching (pure/filter.js), and rendering events.

import { takeWords } from "../pure/effects/words.js";
import { matchesEvent } from "../pure/filter.js";
import { readOnce } from "./reading.js";

/** @typedef {import("../pure/types.js").LogEvent} LogEvent */
/** @typedef {import("../pure/filter.js").EventFilter} EventFilter */

const PAGE = 500;
/** Maximum positions that one answer covers. */
const COVERS = 2_000;
/** Maximum steps per read; a read ends earlier once it has found `ENOUGH` matching events. */
const ROUNDS = 8;
const ENOUGH = 100;
const MOST = 10_000;

/**
 * @param {{ask: import("../net/ask.js").Ask, store: import("./store.js").Store}} world
 * @param {EventFilter} filter
 * @param {() => void} changed
 */
export function openLog({ ask, store }, filter, changed) {
  /** @type {Map<number, LogEvent>} */
  const events = new Map();
  const progress = {
    isReading: false,
    /** @type {any} */
    problem: null,
    /** Every position above this one has been read. */
    low: 0,
    floor: 1,
    /** Whether the last read found matching events, so that the next one may start automatically. */
    hasFound: true,
  };
  /** @type {LogEvent[] | null} */
  let sorted = null;
  let isBegun = false;
  let isClosed = false;
  const [kind] = filter.kinds.size === 1 ? filter.kinds : [];
  const narrowed = {
    kind,
    thread_id: filter.thread || undefined,
    channel_id: filter.channel || undefined,
  };

  /** @param {LogEvent} event */
  function add(event) {
    if (events.has(event.lsn) || !matchesEvent(event, filter)) return;
    events.set(event.lsn, event);
    sorted = null;
  }

  /** @param {LogEvent} event */
  const withdraw = (event) => takeWords(events.values(), event);

  /** Reads the events after `from`, up to `to`. @param {number} from @param {number} to */
  async function readPart(from, to) {
    for (let after = from; after < to;) {
      const { body } = await ask("list_events", { ...narrowed, after_id: after, limit: PAGE });
      if (isClosed) return;
      for (const event of body.items) if (event.lsn <= to) add(event);
      store.events().forEach(withdraw);
      if (body.next_cursor === null || body.after_id <= after) return;
      after = body.after_id;
    }
  }

  async function begin() {
    const { floor, head } = (await ask("get_room", {})).body;
    Object.assign(progress, { floor, low: head.lsn });
    isBegun = true;
  }

  async function read() {
    if (!isBegun) await begin();
    const before = events.size;
    let span = PAGE;
    for (let round = 0; round < ROUNDS && !isAtEnd() && events.size - before < ENOUGH; round += 1) {
      const from = Math.max(progress.floor - 1, progress.low - span);
      await readPart(from, progress.low);
      if (isClosed) return;
      progress.low = from;
      span = Math.min(COVERS, span * 2);
      changed();
    }
    progress.hasFound = events.size > before;
  }

  const isAtEnd = () => isBegun && progress.low < progress.floor;

  async function more() {
    if (isAtEnd() || events.size >= MOST) return;
    await readOnce(progress, read, () => !isClosed && changed());
  }

  // Remove the events of a channel that the member can no longer see.
  const unwatch = store.watch(({ gone }) => {
    for (const [lsn, { payload }] of gone.size ? events : [])
      if (gone.has(`channel/${payload.$chain.channel_id}`)) events.delete(lsn);
    if (gone.size) sorted = null;
  });
  store.events().forEach(add);
  void more();

  return {
    progress,
    more,
    isAtEnd,
    isFull: () => events.size >= MOST,
    /** @param {LogEvent[]} news */
    take(news) {
      news.forEach(add);
      news.forEach(withdraw);
    },
    /** @param {number} lsn */
    get: (lsn) => events.get(lsn),
    /** Returns the matching events, newest first. @returns {LogEvent[]} */
    items: () => (sorted ??= [...events.values()].sort((one, other) => other.lsn - one.lsn)),
    close() {
      isClosed = true;
      unwatch();
    },
  };
}
