// Tasks that the user of this page waits for, until they can be claimed.
//
// Guarantees: the user is notified once, when no known obstacle is left. Not here: claiming, which the server
// decides.

import { isDone, isHandedIn, isLive } from "../pure/lanes.js";

/**
 * @param {import("./store.js").Store} store
 * @param {(thread: any) => void} free
 */
export function createWaits(store, free) {
  /** @type {Set<string>} */
  const ids = new Set();

  /** @param {any} thread */
  function isFree(thread) {
    const isOpen = !isDone(thread) && !isLive(thread) && !isHandedIn(thread);
    return (
      isOpen && !thread.dead && thread.blocked === 0 && !store.get("deferred", thread.id)?.obstacles?.length
    );
  }

  store.index(({ dirty }) => {
    if (ids.size === 0 || !dirty.has("list/deferred")) return;
    for (const id of ids) {
      const thread = /** @type {any} */ (store.get("thread", id));
      if (thread && !isDone(thread) && !isFree(thread)) continue;
      ids.delete(id);
      if (thread && isFree(thread)) free(thread);
    }
  });

  return {
    /** @param {string} id */
    add(id) {
      ids.add(id);
      store.touch([`thread/${id}`]);
    },
    /** @param {string} id */
    has: (id) => ids.has(id),
  };
}
