// Everything that needs the signed-in member, in the order of pure/rank.js, updated by events.
//
// Guarantees: approvals, requested reviews, dead letters and the inbox are read from the start; budgets and
// reviews of the member's own tasks are read once the tasks are known, for at most 60 of them, and it says if
// there are more; each new need is announced once. Not here: reading all tasks (threads.js), and rendering
// needs.

import { createCauses } from "../pure/cause.js";
import { isDone, isHandedIn, isLive, isMine } from "../pure/lanes.js";
import { rankNow } from "../pure/rank.js";

/** @typedef {import("../pure/rank.js").Need} Need */
/** @typedef {import("./store.js").Changes} Changes */

/** The lists from which needs are derived. */
export const NEEDS = ["approvals", "awaited", "dead_letters", "inbox", "unacknowledged", "assigned"].map(
  (name) => `list/${name}`,
);
/** Maximum own tasks whose budgets and reviews are read. */
export const LOOKED_AT = 60;
const NAMED_MOST = 200;
/** Kinds of entities that may cause a need or end it. */
const MATTERS = /^(?:gate|thread|alarm|closing|dead_letter|awaited|review|budget|inbox)\//;

/**
 * @param {{
 *   store: import("./store.js").Store,
 *   reads: import("./reads.js").Reads,
 *   me: import("../pure/types.js").Me,
 *   now: () => number,
 *   arrived: (need: Need) => void,
 * }} setting `arrived` receives each new need.
 */
export function createNeeds({ store, reads, me, now, arrived }) {
  const lists = reads.wish();
  const looked = reads.wish();
  lists.set(NEEDS);
  /**
   * Unfinished tasks that the member owns or holds, or that have no owner; low numbers are read first.
   *
   * @type {Map<string, number>}
   */
  const own = new Map();
  let isOwnChanged = false;
  const causes = createCauses(me.member_id);
  /** @type {Need[]} */
  let ranked = [];
  /** @type {Set<string> | null} Null until all lists were read. */
  let told = null;

  /** @param {string} id */
  function note(id) {
    const thread = /** @type {any} */ (store.get("thread", id));
    const place = thread && !isDone(thread) && isMine(thread, me) ? placeOf(thread) : undefined;
    if (own.get(id) === place) return;
    isOwnChanged = true;
    if (place === undefined) own.delete(id);
    else own.set(id, place);
  }

  /**
   * Returns the read order of a task: tasks that the member owns first, and among them those with a claim or
   * a result.
   *
   * @param {any} thread
   */
  const placeOf = (thread) =>
    (thread.owner_id === me.member_id ? 0 : 2) + (isLive(thread) || isHandedIn(thread) ? 0 : 1);

  function look() {
    const named = [
      ...store.all("gate").flatMap(({ state, thread_id }) => (state === "pending" ? [thread_id] : [])),
      ...store.all("inbox").flatMap(({ read, thread_id }) => (!read && thread_id ? [thread_id] : [])),
      ...alarms().map(({ id }) => id),
    ];
    const first = [...own].sort((one, other) => one[1] - other[1]).slice(0, LOOKED_AT);
    const keys = first.flatMap(([id]) => [`budget/${id}`, `reviews/${id}`]);
    looked.set([...keys, ...named.slice(0, NAMED_MOST).map((id) => `thread/${id}`)]);
    isOwnChanged = false;
  }

  function rank() {
    const threads = /** @type {any} */ ({ get: (/** @type {string} */ id) => store.get("thread", id) });
    const all = (/** @type {string} */ kind) => /** @type {any[]} */ (store.all(kind));
    ranked = rankNow({
      me,
      now: now(),
      threads,
      gates: all("gate"),
      letters: all("dead_letter"),
      alarms: alarms(),
      awaited: all("awaited").map(({ id }) => id),
      caused: causes.of,
      reviews: all("review"),
      budgets: all("budget"),
      inbox: all("inbox"),
    });
    tell();
  }

  function alarms() {
    return /** @type {any[]} */ (store.all("alarm")).filter((alarm) => !isOver(alarm));
  }

  /**
   * Returns whether an alarm is obsolete: a later claim began or ended otherwise, or the task was finished.
   *
   * @param {any} alarm
   */
  function isOver({ id, lsn }) {
    const claim = store.get("assigned", id);
    return store.get("closing", id)?.lsn > lsn || (claim?.reason !== "lapsed" && claim?.lsn > lsn);
  }

  function tell() {
    if (!told && isWhole()) told = new Set(ranked.map(({ key }) => key));
    for (const need of ranked) {
      if (!told || told.has(need.key)) continue;
      told.add(need.key);
      arrived(need);
    }
  }

  const isNeed = (/** @type {string} */ key) => ranked.some((need) => need.key === key);
  // Data that was read stays known while it is read again.
  const isWhole = () =>
    NEEDS.every(
      (key) =>
        store.get("list", key.slice(5)) || ["refused", "missing"].includes(reads.standing(key)?.state ?? ""),
    );

  const unwatch = store.index((changes) => {
    const keys = [...changes.dirty].filter((key) => MATTERS.test(key) || NEEDS.includes(key));
    for (const event of changes.events) causes.note(/** @type {any} */ (event), isNeed);
    for (const key of keys) if (key.startsWith("thread/")) note(key.slice(7));
    if (changes.dirty.has("list/inbox")) raise(store, "inbox", alarmsOfInbox(store));
    if (changes.dirty.has("list/unacknowledged")) raise(store, "unacknowledged", store.all("unacknowledged"));
    if (changes.dirty.has("list/assigned"))
      raise(store, "assigned", store.all("assigned").filter(({ reason }) => reason === "lapsed"));
    if (changesWhatIsAwaited(changes)) reads.again("list/awaited");
    if (keys.length === 0) return;
    if (isOwnChanged || keys.some((key) => /^(?:gate|alarm|inbox|list)\//.test(key))) look();
    rank();
  });
  for (const { id } of store.all("thread")) note(id);

  return {
    /** Returns the needs, most urgent first. */
    list: () => ranked,
    /** Returns whether all lists that are read from the start have been read. */
    isWhole,
    /** Returns whether more reviews may be requested than the server lists. */
    isCut: () => store.get("list", "awaited")?.isWhole === false,
    /** Returns whether the member has more own tasks than those whose budgets and reviews are read. */
    isPart: () => own.size > LOOKED_AT,
    close: () => (unwatch(), lists.close(), looked.close()),
  };
}

/** @param {Changes} changes */
function changesWhatIsAwaited({ events }) {
  return events.some(({ kind }) => /^Review|^ThreadStateChanged$|^ThreadResultSet$/.test(kind));
}

/**
 * Stores alarms from before the page was opened; the latest alarm of a task counts.
 *
 * @param {import("./store.js").Store} store
 * @param {string} list The list that reported the alarms.
 * @param {any[]} alarms
 */
function raise(store, list, alarms) {
  const lsn = store.get("list", list)?.of ?? 0;
  for (const alarm of alarms) {
    if ((store.get("alarm", alarm.id)?.lsn ?? -1) < alarm.lsn) store.put("alarm", alarm, lsn);
  }
}

/**
 * Returns alarms for claims that, according to the inbox, lapsed or were not acknowledged.
 *
 * @param {import("./store.js").Store} store
 */
function alarmsOfInbox(store) {
  return store.all("inbox").flatMap(({ reason, thread_id, at, actor_id, lsn }) => {
    const told = { claim_lease_id: null, member_id: actor_id, owner_id: null, at, lsn };
    return reason in ALARMS && thread_id ? [{ id: thread_id, reason: ALARMS[reason], ...told }] : [];
  });
}

/** @type {Record<string, string>} */
const ALARMS = { claim_unacknowledged: "unacknowledged", claim_expired: "lapsed" };
