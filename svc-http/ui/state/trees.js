// Markdown trees, which the server parses from texts: requested in batches, and cached by entity.
//
// Guarantees: the texts of one draw share a request if they fit, and at most two requests are under way; a
// tree, or a request for one, is dropped when its message is withdrawn, when its text changes, or when the
// session ends; temporary failures and texts missing from an answer are requested again; a text that the
// server refuses stays without a tree. Not here: rendering trees.

import { mayPass } from "../net/ask.js";
import { takesWords } from "../pure/effects/words.js";
import { createRetry } from "./reading.js";

/** @typedef {import("../pure/fold.js").Tree} Tree */
/** @typedef {(nodes: Tree[]) => void} Draw */
/**
 * @typedef {{of?: string, isPast?: boolean, channel?: string | null, text: string}} Source `of`: key of the
 * entity that has the text, under which the tree is cached; `isPast`: the text may be an earlier one, so the
 * tree is not cached; `channel`: where its mentions are looked up.
 */
/** @typedef {{of?: string, isPast?: boolean, draw: Draw}} Wanted */
/** @typedef {{channel: string | null, text: string, wanted: Wanted[], isAsked: boolean}} Pending */

/** The operation that parses texts. */
export const OPERATION = "parse_markdown";
/** Maximum texts, and maximum bytes of texts as JSON, in one request. */
const TEXTS_MAX = 100;
const BYTES_MAX = 1 << 20;
const AT_ONCE = 2;

/**
 * @param {{
 *   store: import("./store.js").Store,
 *   ask: import("../net/ask.js").Ask,
 *   lacks: (operation: string) => string | null,
 *   together: (draw: () => void) => void,
 * }} setting `together`: runs all draws for one answer.
 */
export function createTrees({ store, ask, lacks, together }) {
  /** The trees of each entity, by text. @type {Map<string, Map<string, Tree[]>>} */
  const kept = new Map();
  /** Pending texts, by channel and text. @type {Map<string, Pending>} */
  const pending = new Map();
  const encoder = new TextEncoder();
  let asking = 0;
  let isHeld = false;
  let isClosed = false;

  /** Returns whether an entity still has a text. @param {string} key @param {string} text */
  function has(key, text) {
    const at = key.indexOf("/");
    const entity = store.get(key.slice(0, at), key.slice(at + 1));
    if (!entity || entity.withdrawn) return false;
    const { content } = entity;
    const isIn = (/** @type {any} */ block) => block.text === text;
    return Object.values(entity).includes(text) || (Array.isArray(content) && content.some(isIn));
  }

  const unwatch = store.index(({ dirty, events }) => {
    const ends = events.filter(takesWords);
    for (const key of dirty) {
      const trees = kept.get(key);
      for (const text of trees?.keys() ?? []) if (!has(key, text)) trees?.delete(text);
      if (trees?.size === 0) kept.delete(key);
    }
    for (const [key, { text, wanted }] of pending) {
      const still = wanted.filter(({ of, isPast }) =>
        isPast ? !ends.some((end) => isOf(end, of)) : !of || !dirty.has(of) || has(of, text),
      );
      if (still.length === wanted.length) continue;
      wanted.splice(0, wanted.length, ...still);
      if (still.length === 0) pending.delete(key);
    }
  });

  const retry = createRetry(store, () => {
    isHeld = false;
    pump();
  });

  /** Returns the texts for the next request, all of one channel. @returns {Pending[]} */
  function next() {
    /** @type {Pending[]} */
    const batch = [];
    let bytes = 0;
    for (const one of pending.values()) {
      if (one.isAsked || (batch[0] && batch[0].channel !== one.channel)) continue;
      // Size as JSON, which is never smaller than the text.
      bytes += encoder.encode(JSON.stringify(one.text)).length;
      if (batch.length === TEXTS_MAX || (batch.length > 0 && bytes > BYTES_MAX)) break;
      batch.push(one);
    }
    return batch;
  }

  function pump() {
    while (asking < AT_ONCE && !isHeld && !isClosed) {
      const batch = next();
      if (batch.length === 0) return;
      for (const one of batch) one.isAsked = true;
      void read(batch);
    }
  }

  /** @param {Pending[]} batch */
  async function read(batch) {
    asking += 1;
    let settled = batch;
    /** @type {any} */
    let problem;
    try {
      settled = await answer(batch);
    } catch (error) {
      problem = error;
    }
    asking -= 1;
    if (isClosed) return;
    const isTried = problem && mayPass(problem);
    isHeld ||= isTried;
    for (const one of batch) {
      one.isAsked = false;
      // An identical text may have been requested in the meantime.
      if (!isTried && settled.includes(one) && pending.get(keyOf(one)) === one) pending.delete(keyOf(one));
    }
    retry.ended(problem);
    pump();
  }

  /**
   * @param {Pending[]} batch
   * @returns {Promise<Pending[]>} Those that were answered; the others are requested again.
   */
  async function answer(batch) {
    const texts = batch.map(({ text }) => text);
    const channel_id = batch[0]?.channel ?? undefined;
    const { body } = await ask(OPERATION, { channel_id, texts });
    if (isClosed) return [];
    // An answer covers the first texts, and at least one.
    const answered = batch.slice(0, Math.max(1, body.items.length));
    together(() => answered.forEach((one, at) => take(one, body.items[at].nodes)));
    store.touch(["trees/drawn"]);
    return answered;
  }

  /** @param {Pending} pending @param {Tree[]} nodes */
  function take({ text, wanted }, nodes) {
    for (const { of, isPast, draw } of wanted) {
      if (of && !isPast) kept.set(of, (kept.get(of) ?? new Map()).set(text, nodes));
      draw(nodes);
    }
  }

  return {
    /** Returns the tree of a text, if it is cached. @param {Source} source @returns {Tree[] | null} */
    known: ({ of, text }) => (of && kept.get(of)?.get(text)) || null,
    /**
     * Requests the tree of a text, to be drawn when it arrives.
     *
     * @param {Source} source
     * @param {Draw} draw
     */
    want({ of, isPast, channel = null, text }, draw) {
      if (lacks(OPERATION) !== null) return;
      const key = keyOf({ channel, text });
      const one = pending.get(key) ?? { channel, text, wanted: [], isAsked: false };
      one.wanted.push({ of, isPast, draw });
      pending.set(key, one);
      // Texts of the same draw share a request.
      queueMicrotask(pump);
    },
    close() {
      isClosed = true;
      kept.clear();
      pending.clear();
      retry.close();
      unwatch();
    },
  };
}

/**
 * Returns whether an event that withdraws content concerns a message.
 *
 * @param {import("./store.js").LogEvent} event
 * @param {string} [key]
 */
const isOf = ({ payload: { message_id } }, key) => !message_id || key === `message/${message_id}`;

/** @param {{channel: string | null, text: string}} source */
const keyOf = ({ channel, text }) => `${channel} ${text}`;
