// Evicts entities that are no longer used, so that a page can stay open for weeks.
//
// Guarantees: each kind keeps a limited number of entities, and beyond that only what is wanted or belongs to
// an open task; tasks that the filter hides or that are done are evicted first, and messages before the
// latest message of a task, which its card shows. Not here: the kept part of the log (pure/merge.js).

import { isDone } from "../pure/lanes.js";

const EVERY = 30_000;
const MOST = 2_000;
/** @type {Record<string, number>} */
export const MOST_OF = { thread: 11_000, member: 11_000, channel: 5_000, message: 3_000 };

/**
 * @param {{
 *   store: import("./store.js").Store,
 *   isWanted: (key: string) => boolean,
 *   isLatest: (message: any) => boolean,
 *   isShown?: (thread: string) => boolean,
 * }} world `isLatest`: whether a message is the latest of a known task; `isShown`: whether the board's filter
 * shows a task.
 */
export function createSweep({ store, isWanted, isLatest, isShown = () => true }) {
  /** Number of open views of each task. @type {Map<string, number>} */
  const held = new Map();

  /** @param {string} kind @param {any} entity */
  function isKept(kind, entity) {
    return isWanted(`${kind}/${entity.id}`) || held.has(kind === "thread" ? entity.id : entity.thread_id);
  }

  /**
   * Entities that are evicted before others of their kind.
   *
   * @type {Record<string, (entity: any) => boolean>}
   */
  const goesFirst = { thread: isDone, message: (message) => !isLatest(message) };

  /** @param {string} kind */
  function leaving(kind) {
    const isFirst = goesFirst[kind] ?? (() => false);
    const going = store.all(kind).filter((entity) => !isKept(kind, entity));
    const first = new Set(going.filter(isFirst));
    const left = new Set(kind === "thread" ? going.filter(({ id }) => !isShown(id)) : []);
    // Then the least recently updated, and of these the oldest.
    return going.sort(
      (one, other) =>
        Number(left.has(other)) - Number(left.has(one)) ||
        Number(first.has(other)) - Number(first.has(one)) ||
        one.of - other.of ||
        one.lsn - other.lsn,
    );
  }

  function sweep() {
    for (const kind of store.kinds()) {
      const over = store.count(kind) - (MOST_OF[kind] ?? MOST);
      if (over <= 0) continue;
      const going = leaving(kind).slice(0, over);
      store.forget(
        kind,
        going.map(({ id }) => id),
      );
    }
  }

  const timer = setInterval(sweep, EVERY);
  return {
    sweep,
    /**
     * Keeps the entities of a task until the returned function is called.
     *
     * @param {string} id
     * @returns {() => void}
     */
    hold(id) {
      held.set(id, (held.get(id) ?? 0) + 1);
      return () => {
        const left = (held.get(id) ?? 1) - 1;
        if (left > 0) held.set(id, left);
        else held.delete(id);
      };
    },
    close: () => clearInterval(timer),
  };
}
