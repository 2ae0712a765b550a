// Sorts tasks into lanes, and updates the lanes by what has changed.
//
// Guarantees: the cost of an update depends on the change, not on the number of tasks; a task is in at most
// one lane; filters only hide tasks. Not here: reading tasks (threads.js), and the rules for lanes
// (pure/lanes.js).

import { matches } from "../pure/filter.js";
import { LANES, compareInLane, laneFor } from "../pure/lanes.js";

/** @typedef {import("../pure/lanes.js").Lane} Lane */
/** @typedef {import("../pure/filter.js").Filter} Filter */
/** @typedef {import("./store.js").Changes} Changes */

/** Number of changed tasks above which sorting all is cheaper than moving each. */
const MANY = 200;

/**
 * @param {import("./store.js").Store} store
 * @param {import("../pure/types.js").Me} me
 */
export function createBoard(store, me) {
  /** @type {Map<Lane, string[]>} */
  const lanes = new Map(LANES.map((lane) => [lane, []]));
  /** @type {Map<string, Lane>} */
  const placed = new Map();
  /** The pending gates of each thread. @type {Map<string, Set<string>>} */
  const gates = new Map();
  /** The newest known message of each thread. @type {Map<string, string>} */
  const latest = new Map();
  /** Number of unread inbox items by thread. @type {Map<string, number>} */
  let unread = new Map();
  /** @type {Filter | null} */
  let filter = null;

  /** @param {string} id */
  const gatesOf = (id) => [...(gates.get(id) ?? [])].flatMap((gate) => store.get("gate", gate) ?? []);

  /** @param {any} thread @returns {Lane | null} */
  function laneNow(thread) {
    if (isTalk(thread)) return null;
    if (filter && !matches(thread, filter, names)) return null;
    return laneFor(thread, {
      me,
      gates: /** @type {any} */ (gatesOf(thread.id)),
      awaited: store.get("awaited", thread.id) !== undefined,
      alarm: /** @type {any} */ (store.get("alarm", thread.id)),
      obstacles: store.get("deferred", thread.id)?.obstacles,
    });
  }

  /** Returns whether a thread belongs to a direct message and is not a task. @param {any} thread */
  const isTalk = ({ channel_id }) =>
    store.get("dm", channel_id) !== undefined || store.get("channel", channel_id)?.kind === "dm";

  const names = {
    channelName: (/** @type {string} */ id) => store.get("channel", id)?.name ?? "",
    handle: (/** @type {string | null} */ id) => store.get("member", id)?.handle ?? "",
  };

  const closedAt = (/** @type {string} */ id) => store.get("closing", id)?.lsn;

  /** @param {string} id */
  function noteGate(id) {
    const gate = store.get("gate", id);
    const of = gate?.thread_id;
    if (gate && gate.state === "pending") {
      const known = gates.get(of) ?? new Set();
      gates.set(of, known.add(id));
      return of;
    }
    for (const [thread, known] of gates) {
      if (!known.delete(id)) continue;
      if (known.size === 0) gates.delete(thread);
      return thread;
    }
    return null;
  }

  /** @param {string} id */
  function noteMessage(id) {
    const message = store.get("message", id);
    if (!message) return;
    const before = store.get("message", latest.get(message.thread_id));
    if (!before || before.lsn < message.lsn) latest.set(message.thread_id, id);
  }

  /** Removes evicted messages from `latest`. @param {Changes} changes */
  function dropLatest({ gone }) {
    const messages = [...gone].filter((key) => key.startsWith("message/"));
    if (messages.length === 0) return;
    const ids = new Set(messages.map((key) => key.slice("message/".length)));
    for (const [thread, id] of latest) if (ids.has(id)) latest.delete(thread);
  }

  function countUnread() {
    unread = new Map();
    for (const { thread_id, read } of store.all("inbox")) {
      if (!read && thread_id) unread.set(thread_id, (unread.get(thread_id) ?? 0) + 1);
    }
  }

  /**
   * Returns the thread whose lane a changed key may affect, or null.
   *
   * @param {string} key
   * @returns {string | null}
   */
  function threadOf(key) {
    const at = key.indexOf("/");
    const [kind, id] = [key.slice(0, at), key.slice(at + 1)];
    if (kind === "message") noteMessage(id);
    if (kind === "gate") return noteGate(id);
    if (kind === "dm") return store.get("dm", id)?.thread_id ?? null;
    return kind in MOVES ? id : null;
  }

  /** Places threads; all are removed first, so that the lanes stay sorted. @param {Set<string>} ids */
  function place(ids) {
    for (const id of ids) remove(id);
    for (const id of ids) {
      const thread = store.get("thread", id);
      const lane = thread ? laneNow(thread) : null;
      if (lane) insert(id, lane, thread);
    }
  }

  /** @param {string} id */
  function remove(id) {
    const lane = placed.get(id);
    const ids = (lane && lanes.get(lane)) ?? [];
    const at = ids.indexOf(id);
    if (at >= 0) ids.splice(at, 1);
    placed.delete(id);
  }

  /** @param {string} id @param {Lane} lane @param {any} thread */
  function insert(id, lane, thread) {
    const ids = lanes.get(lane) ?? [];
    const compare = compareInLane(lane, closedAt);
    let [low, high] = [0, ids.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = /** @type {any} */ (store.get("thread", ids[middle]));
      if (other && compare(other, thread) <= 0) low = middle + 1;
      else high = middle;
    }
    ids.splice(low, 0, id);
    placed.set(id, lane);
  }

  /**
   * Returns whether names in the filter may have become known, or a channel has turned out to be a direct
   * message.
   *
   * @param {Changes} changes
   */
  const isNamedAnew = ({ dirty }) =>
    [...dirty].some((key) => key.startsWith("channel/") || (filter?.member && key.startsWith("member/")));

  function rebuild() {
    gates.clear();
    for (const { id } of store.all("gate")) noteGate(id);
    placed.clear();
    for (const ids of lanes.values()) ids.length = 0;
    /** @type {Map<Lane, any[]>} */
    const sorted = new Map(LANES.map((lane) => [lane, []]));
    for (const thread of store.all("thread")) {
      const lane = laneNow(thread);
      if (lane) sorted.get(lane)?.push(thread);
    }
    for (const [lane, threads] of sorted) {
      threads.sort(compareInLane(lane, closedAt));
      lanes.set(
        lane,
        threads.map(({ id }) => id),
      );
      for (const { id } of threads) placed.set(id, lane);
    }
  }

  return {
    /** @param {Lane} lane */
    ids: (lane) => lanes.get(lane) ?? [],
    /** @param {string} id */
    laneOf: (id) => placed.get(id) ?? null,
    /** Returns whether the filter shows a task. @param {string} id */
    isShown: (id) => !filter || placed.has(id),
    size: () => placed.size,
    /** @param {string} id */
    hasGate: (id) => gates.has(id),
    /** @param {string} id */
    latestOf: (id) => latest.get(id),
    /** Returns the unread count: inbox items, or messages of a followed task. @param {string} id */
    unreadOf: (id) => Math.max(unread.get(id) ?? 0, store.get("follow", id)?.unread ?? 0),
    /** @param {Changes} [changes] Omitted: rebuilds everything. */
    update(changes) {
      const ids = new Set();
      if (!changes || changes.dirty.has("list/inbox")) countUnread();
      for (const key of changes?.dirty ?? []) {
        const id = threadOf(key);
        if (id) ids.add(id);
      }
      if (changes) dropLatest(changes);
      if (!changes || ids.size > MANY || isNamedAnew(changes)) return rebuild();
      place(ids);
    },
    /** @param {Filter | null} next */
    setFilter(next) {
      filter = next;
      rebuild();
    },
  };
}

/** Kinds of entities with the id of a thread that affect its lane. */
const MOVES = { thread: true, alarm: true, deferred: true, awaited: true, closing: true };
