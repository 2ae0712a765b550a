// The latest message of each direct message.
//
// Guarantees: new messages update it; an unknown one is looked up in the log, once per conversation and only
// for the first 30. Not here: earlier messages.

const LOOKED_UP = 30;

/**
 * @param {{
 *   store: import("./store.js").Store,
 *   ask: import("../net/ask.js").Ask,
 *   reads: import("./reads.js").Reads,
 * }} setting
 */
export function createLastSaid({ store, ask, reads }) {
  /** The newest known message of each thread. @type {Map<string, string>} */
  const latest = new Map();
  /** @type {Set<string>} */
  const asked = new Set();
  /** @type {Set<string>} */
  const wanted = new Set();
  const wish = reads.wish();

  /** @param {any} message */
  function note({ id, thread_id, lsn }) {
    if (lsn > (of(thread_id)?.lsn ?? 0)) latest.set(thread_id, id);
  }

  /** @param {string} threadId */
  const of = (threadId) => store.get("message", latest.get(threadId));

  /** @param {any} dm */
  async function lookUp({ thread_id, last_lsn }) {
    asked.add(thread_id);
    try {
      const { body } = await ask("list_events", { after_id: last_lsn - 1, limit: 1 });
      const id = body.items[0]?.payload.message_id;
      if (!id) return;
      wanted.add(`message/${id}`);
      wish.set(wanted);
    } catch {
      // The list then shows no message; the conversation itself does.
    }
  }

  for (const message of store.all("message")) note(message);
  const unwatch = store.index(({ dirty }) => {
    for (const key of dirty) {
      const message = key.startsWith("message/") ? store.get("message", key.slice(8)) : undefined;
      if (message) note(message);
    }
  });

  return {
    of,
    /** Looks up the latest messages that are not known. @param {any[]} dms */
    want(dms) {
      for (const dm of dms.slice(0, LOOKED_UP)) {
        if (dm.last_lsn && !of(dm.thread_id) && !asked.has(dm.thread_id)) void lookUp(dm);
      }
    },
    close: () => (unwatch(), wish.close()),
  };
}
