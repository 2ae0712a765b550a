// Forgets what nobody looks at any more, so that a page that is open for weeks stays as small as on its first
// day.
//
// Promises: of each kind the newest stay, up to a limit, and all that is shown, wanted, or in an open task; a
// task that is done goes before one that is not, and the last word of a task, which its card shows, after
// other words. Leaves out: what the log keeps (pure/merge.js).

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
 * }} world `isLatest`: whether a message is the last word of a task that is known; `isShown`: whether the filter of the
 * board lets a task through.
 */
export function createSweep({ store, isWanted, isLatest, isShown = () => true }) {
  /** Tasks that are open on the page. @type {Map<string, number>} */
  const held = new Map();

  /** @param {string} kind @param {any} entity */
  function isKept(kind, entity) {
    return isWanted(`${kind}/${entity.id}`) || held.has(kind === "thread" ? entity.id : entity.thread_id);
  }

  /** What goes before all others of its kind. @type {Record<string, (entity: any) => boolean>} */
  const goesFirst = { thread: isDone, message: (message) => !isLatest(message) };

  /** @param {string} kind */
  function leaving(kind) {
    const isFirst = goesFirst[kind] ?? (() => false);
    const going = store.all(kind).filter((entity) => !isKept(kind, entity));
    const first = new Set(going.filter(isFirst));
    const left = new Set(kind === "thread" ? going.filter(({ id }) => !isShown(id)) : []);
    // Then what changed longest ago, and of that what is oldest.
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
    /** Keeps all of a task as long as it is open. @param {string} id @returns {() => void} */
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
