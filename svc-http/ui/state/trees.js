// Trees of Markdown, which the service makes of texts: asked for many at a time, and kept beside what they are of.
//
// Promises: what is wanted in one draw is one request as far as it fits, and two are on their way; a tree goes
// with its message, with its text, and with the session, and so does what waits for one; what failed for now is asked for again, and what an answer
// has left out. A text whose tree is refused stays without. Leaves out: how trees look.

import { mayPass } from "../net/ask.js";
import { takesWords } from "../pure/effects/words.js";
import { createRetry } from "./reading.js";

/** @typedef {import("../pure/fold.js").Tree} Tree */
/** @typedef {(nodes: Tree[]) => void} Draw */
/**
 * @typedef {{of?: string, isPast?: boolean, channel?: string | null, text: string}} Source `of`: the key of the entity that
 * has the text, beside which the tree is kept; `isPast`: it may have another text by now, and the tree is not kept;
 * `channel`: where its mentions are looked up.
 */
/** @typedef {{of?: string, isPast?: boolean, draw: Draw}} Wanted */
/** @typedef {{channel: string | null, text: string, wanted: Wanted[], isAsked: boolean}} Pending */

/** How the service is asked for trees. */
export const OPERATION = "parse_markdown";
/** Of one request. */
const TEXTS_MAX = 100;
const BYTES_MAX = 1 << 20;
const AT_ONCE = 2;

/**
 * @param {{
 *   store: import("./store.js").Store,
 *   ask: import("../net/ask.js").Ask,
 *   lacks: (operation: string) => string | null,
 *   together: (draw: () => void) => void,
 * }} setting `together`: draws all that came in one answer.
 */
export function createTrees({ store, ask, lacks, together }) {
  /** The trees of each entity, by its texts. @type {Map<string, Map<string, Tree[]>>} */
  const kept = new Map();
  /** By channel and text. @type {Map<string, Pending>} */
  const pending = new Map();
  const encoder = new TextEncoder();
  let asking = 0;
  let isHeld = false;
  let isClosed = false;

  /** Whether an entity still has a text. @param {string} key @param {string} text */
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

  /** What goes into the next request: texts of one channel. @returns {Pending[]} */
  function next() {
    /** @type {Pending[]} */
    const batch = [];
    let bytes = 0;
    for (const one of pending.values()) {
      if (one.isAsked || (batch[0] && batch[0].channel !== one.channel)) continue;
      // As it is sent, which is never less than the text.
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
      // Meanwhile another may have come to want the same.
      if (!isTried && settled.includes(one) && pending.get(keyOf(one)) === one) pending.delete(keyOf(one));
    }
    retry.ended(problem);
    pump();
  }

  /** @param {Pending[]} batch @returns {Promise<Pending[]>} Those that were answered; the others are asked for again. */
  async function answer(batch) {
    const texts = batch.map(({ text }) => text);
    const channel_id = batch[0]?.channel ?? undefined;
    const { body } = await ask(OPERATION, { channel_id, texts });
    if (isClosed) return [];
    // The first ones, and at least one.
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
    /** The tree of a text, if it is there. @param {Source} source @returns {Tree[] | null} */
    known: ({ of, text }) => (of && kept.get(of)?.get(text)) || null,
    /**
     * Has the tree of a text drawn once it is there.
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
      // All that is drawn now is asked for together.
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

/** Whether an event is the end of a message. @param {import("./store.js").LogEvent} event @param {string} [key] */
const isOf = ({ payload: { message_id } }, key) => !message_id || key === `message/${message_id}`;

/** @param {{channel: string | null, text: string}} source */
const keyOf = ({ channel, text }) => `${channel} ${text}`;
