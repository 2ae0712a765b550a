// The tasks of one channel, those with the latest messages first.
//
// Guarantees: an update costs only what changed; the newest tasks of the channel are read here even if the
// board does not read them, and it says if there are more. Not here: the tasks themselves.

import { isDone } from "../pure/lanes.js";
import { createRetry, readOnce } from "./reading.js";

const MOST = 500;

/**
 * @param {{store: import("./store.js").Store, reads: import("./reads.js").Reads}} world
 * @param {string} id
 * @param {(threadId: string) => string | undefined} latestOf Returns the newest known message of a task.
 */
export function createChannelTasks({ store, reads }, id, latestOf) {
  /** @type {Set<string>} */
  const ids = new Set();
  /** @type {import("./reading.js").Progress & {isWhole: boolean}} */
  const progress = { isReading: false, isWhole: true, problem: null };

  /** @param {any} thread */
  function note(thread) {
    if (thread?.channel_id === id) ids.add(thread.id);
  }

  /** @param {any} thread */
  const at = ({ id: of, lsn }) => Math.max(lsn, store.get("message", latestOf(of))?.lsn ?? 0);

  for (const thread of store.all("thread")) note(thread);
  const unwatch = store.index(({ dirty, gone }) => {
    for (const key of dirty) if (key.startsWith("thread/")) note(store.get("thread", key.slice(7)));
    for (const key of gone) if (key.startsWith("thread/")) ids.delete(key.slice(7));
  });
  async function read() {
    const { body, lsn } = await reads.pages("list_threads", { channel_id: id, newest_first: true }, MOST);
    store.put("thread", body.items, lsn);
    progress.isWhole = body.isWhole;
  }
  let isClosed = false;
  const load = () =>
    readOnce(progress, read, () => {
      if (isClosed) return;
      retry.ended(progress.problem);
      store.touch([`channel/${id}`]);
    });
  const retry = createRetry(store, () => void load());
  void load();

  return {
    progress,
    /** @param {"open" | "done" | "all"} which */
    list(which) {
      /** @type {[number, string][]} */
      const found = [];
      for (const one of ids) {
        const thread = /** @type {any} */ (store.get("thread", one));
        if (thread && (which === "all" || isDone(thread) === (which === "done"))) found.push([at(thread), one]);
      }
      return found.sort(([one], [other]) => other - one).map(([, one]) => one);
    },
    close() {
      isClosed = true;
      unwatch();
      retry.close();
    },
  };
}
