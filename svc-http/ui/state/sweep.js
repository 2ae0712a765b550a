// Forgets what nobody looks at any more, so that a page that is open for weeks stays as small as on its first
// day.
//
// Promises: of each kind the newest stay, up to a limit, and all that is shown, wanted, or in an open task; a
// task that is done goes before one that is not. Leaves out: what the log keeps (pure/merge.js).

import { isDone } from "../pure/lanes.js";

const EVERY = 30_000;
const MOST = 2_000;
/** @type {Record<string, number>} */
const MOST_OF = { thread: 11_000, member: 11_000, channel: 5_000, message: 3_000 };

/**
 * @param {{
 *   store: import("./store.js").Store,
 *   isWanted: (key: string) => boolean,
 *   isLatest: (message: any) => boolean,
 * }} world `isLatest`: whether a message is the last word of a task that is known.
 */
export function createSweep({ store, isWanted, isLatest }) {
  /** Tasks that are open on the page. @type {Map<string, number>} */
  const held = new Map();

  /** @param {string} kind @param {any} entity */
  function isKept(kind, entity) {
    if (isWanted(`${kind}/${entity.id}`)) return true;
    const thread = kind === "thread" ? entity.id : entity.thread_id;
    return held.has(thread) || (kind === "message" && isLatest(entity));
  }

  /** What goes first: what is done, then what changed longest ago. @param {any} one @param {any} other */
  function compare(one, other) {
    const done = Number(isDone(other)) - Number(isDone(one));
    return done || one.of - other.of;
  }

  function sweep() {
    for (const kind of store.kinds()) {
      const over = store.count(kind) - (MOST_OF[kind] ?? MOST);
      if (over <= 0) continue;
      const going = store.all(kind).filter((entity) => !isKept(kind, entity));
      going.sort(kind === "thread" ? compare : (one, other) => one.of - other.of);
      store.forget(
        kind,
        going.slice(0, over).map(({ id }) => id),
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
