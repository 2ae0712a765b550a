// Live claims with their footprints, and the tasks that wait for each.
//
// Guarantees: a claim that the user cannot see has a holder and an end but no task, and the tasks that wait
// for it are listed all the same.

import { ms } from "./clock.js";
import { isLive } from "./lanes.js";

/** @typedef {import("./types.js").Thread} Thread */
/** @typedef {import("./types.js").Conflict} Conflict */
/**
 * @typedef {{id: string, items: string[]}} Waiting a task that waits, and the items of its footprint that the
 * claim holds
 */
/**
 * @typedef {object} Held
 * @property {string} key
 * @property {string | null} thread the claimed task; null if the user cannot see it
 * @property {string | null} holder
 * @property {number | null} until in ms
 * @property {string} repo
 * @property {Waiting[]} behind
 */
/**
 * @typedef {{id: string, footprint: {repo: string | null} | null, obstacles: Conflict[]} & Record<string,
 * any>} Deferred
 */

/**
 * Returns the live claims with a footprint, and the hidden claims that tasks wait for.
 *
 * @param {{threads: Thread[], deferred: Deferred[], repo?: string}} known `repo`: the only repository to
 * include
 * @returns {Held[]} what to list: claims by their number of waiting tasks, then by end
 */
export function heldOf({ threads, deferred, repo = "" }) {
  /** @type {Map<string, Held>} */
  const held = new Map();
  for (const thread of threads) {
    if (!isLive(thread) || !thread.footprint?.items.length) continue;
    held.set(thread.id, {
      key: thread.id,
      thread: thread.id,
      holder: thread.assignee_id,
      until: ms(thread.assignment_expires_at),
      repo: thread.footprint.repo ?? "",
      behind: [],
    });
  }
  for (const row of deferred) for (const obstacle of row.obstacles) putBehind(held, row, obstacle);
  const wanted = repo.toLowerCase();
  return [...held.values()].filter((one) => !wanted || one.repo.toLowerCase() === wanted).sort(byWeight);
}

/** @param {Map<string, Held>} held @param {Deferred} row @param {Conflict} obstacle */
function putBehind(held, row, { reason, item, holder, lease_expires_at, thread_id }) {
  if (reason !== "overlap") return;
  const key = thread_id ?? `${holder} ${lease_expires_at}`;
  const one = held.get(key) ?? {
    key,
    thread: thread_id ?? null,
    holder,
    until: ms(lease_expires_at),
    repo: row.footprint?.repo ?? "",
    behind: [],
  };
  held.set(key, one);
  const waits = one.behind.find(({ id }) => id === row.id);
  const items = item ? [item.value] : [];
  if (!waits) one.behind.push({ id: row.id, items });
  else waits.items.push(...items.filter((value) => !waits.items.includes(value)));
}

/** @param {Held} one @param {Held} other */
function byWeight(one, other) {
  const soon = (/** @type {Held} */ { until }) => until ?? Infinity;
  const ends = soon(one) === soon(other) ? 0 : soon(one) - soon(other);
  return other.behind.length - one.behind.length || ends || (one.key < other.key ? -1 : 1);
}

/**
 * Returns the ids of tasks that wait for room in a slot.
 * @param {Deferred[]} deferred
 * @param {string} slot case-insensitive name
 * @returns {string[]}
 */
export function waitingForSlot(deferred, slot) {
  const name = slot.toLowerCase();
  const waits = (/** @type {Conflict} */ { reason, item }) =>
    reason === "slot-full" && item?.value.toLowerCase() === name;
  return deferred.filter(({ obstacles }) => obstacles.some(waits)).map(({ id }) => id);
}

/**
 * Returns the ids of tasks that wait for a paused repository.
 * @param {Deferred[]} deferred
 * @param {string} repo case-insensitive name
 * @returns {string[]}
 */
export function waitingForRepo(deferred, repo) {
  const name = repo.toLowerCase();
  const isOf = (/** @type {Deferred} */ { footprint, obstacles }) =>
    footprint?.repo?.toLowerCase() === name && obstacles.some(({ reason }) => reason === "repo-paused");
  return deferred.filter(isOf).map(({ id }) => id);
}

/**
 * Returns the names of the repositories in which claims are live or tasks wait.
 * @param {{threads: Thread[], deferred: Deferred[]}} known
 * @returns {string[]}
 */
export function reposOf({ threads, deferred }) {
  const names = new Map();
  const live = threads.filter((thread) => isLive(thread));
  for (const { footprint } of [...live, ...deferred]) {
    const repo = footprint?.repo;
    if (repo && !names.has(repo.toLowerCase())) names.set(repo.toLowerCase(), repo);
  }
  return [...names.values()].sort();
}
