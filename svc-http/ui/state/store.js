// What is known of the workspace, and who is told when it changes.
//
// Promises: events and answers are folded in any order (pure/merge.js), own changes that are not answered yet
// lie above (pure/overlay.js); whoever watches is told once in 250 ms what has changed, at once after
// something of one's own, and not at all while paused or hidden: then everything is told on return, but for words
// that are withdrawn, which go at once. Leaves out: reading (reads.js), and the page.

import { takeWords, takesWords } from "../pure/effects/words.js";
import * as merge from "../pure/merge.js";
import * as overlay from "../pure/overlay.js";
import { LISTINGS } from "./entities.js";

/** @typedef {import("../pure/types.js").Entity} Entity */
/** @typedef {import("../pure/types.js").Fields} Fields */
/** @typedef {import("../pure/types.js").LogEvent} LogEvent */
/**
 * What has changed since the last draw: keys (`kind/id`) of entities, and names of lists that only a read tells.
 *
 * @typedef {{dirty: Set<string>, gone: Set<string>, lists: Set<string>, events: LogEvent[]}} Changes
 */

const DRAW_EVERY = 250;
/** More than this is not kept for a draw, but read anew. */
const WAITING_MOST = 2_000;

/** @returns {Changes} */
const nothing = () => ({ dirty: new Set(), gone: new Set(), lists: new Set(), events: [] });

/** @typedef {ReturnType<typeof createStore>} Store */

/** @param {{member_id: string, workspace_id: string}} me */
export function createStore(me) {
  const world = merge.newWorld(me);
  const overlays = overlay.newOverlays();
  /** @type {LogEvent[]} */
  let waiting = [];
  /** What waited and was too much: how many, and up to where. */
  let missed = { count: 0, lsn: 0 };
  let changes = nothing();
  /** @type {Set<(changes: Changes) => void>} */
  const indexes = new Set();
  /** @type {Set<(changes: Changes) => void>} */
  const watchers = new Set();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let frame = 0;
  let isPaused = false;
  let isHidden = false;

  /** @param {{dirty: Iterable<string>, gone?: Iterable<string>, lists?: Iterable<string>}} more */
  function note({ dirty, gone = [], lists = [] }) {
    for (const key of dirty) changes.dirty.add(key);
    for (const key of gone) changes.gone.add(key);
    for (const name of lists) changes.lists.add(name);
  }

  function later() {
    if (timer === undefined) timer = setTimeout(draw, DRAW_EVERY);
  }

  /** Something of one's own is seen at the next frame. */
  function soon() {
    isOwn = true;
    if (!frame) frame = requestAnimationFrame(draw);
  }

  /** @param {number} lsn */
  function restart(lsn) {
    waiting = waiting.filter((event) => event.lsn > lsn);
    if (missed.lsn <= lsn) missed = { count: 0, lsn: 0 };
    note(merge.restart(world, lsn));
    note({ dirty: [], lists: [...ALL_LISTS, ALL] });
    soon();
  }

  function fold() {
    if (missed.count) restart(missed.lsn);
    if (waiting.length === 0) return;
    const folded = waiting;
    waiting = [];
    note(merge.applyEvents(world, folded));
    note({ dirty: overlay.settle(overlays, world) });
    for (const event of folded) changes.events.push(event);
  }

  let isOwn = false;
  function draw() {
    clearTimeout(timer);
    cancelAnimationFrame(frame);
    [timer, frame] = [undefined, 0];
    // What others do waits while paused; what one has asked for oneself is told.
    if (isHidden || (isPaused && !isOwn)) return;
    isOwn = false;
    if (!isPaused) fold();
    emit();
  }

  function emit() {
    const drawn = changes;
    changes = nothing();
    if (drawn.dirty.size + drawn.lists.size + drawn.events.length === 0) return;
    for (const watcher of [...indexes, ...watchers]) watcher(drawn);
  }

  return {
    /** @param {string} kind @param {string | null | undefined} id @returns {Entity | undefined} */
    get(kind, id) {
      const found = id ? merge.entity(world, kind, id) : undefined;
      return found && /** @type {Entity} */ (overlay.over(overlays, kind, found));
    },
    /** @param {string} kind @returns {Entity[]} */
    all(kind) {
      const known = world.kinds[kind];
      return known
        ? Array.from(known.values(), (one) => /** @type {Entity} */ (overlay.over(overlays, kind, one)))
        : [];
    },
    /** @param {string} kind */
    count: (kind) => world.kinds[kind]?.size ?? 0,
    /** The events that are kept, oldest first. */
    events: () => world.events,
    lsn: () => world.lsn,

    /** An answer came. @param {string} kind @param {Fields | Fields[]} fields @param {number} lsn */
    put(kind, fields, lsn) {
      note(merge.applyAnswer(world, kind, fields, lsn));
      note({ dirty: overlay.settle(overlays, world) });
      soon();
    },
    /** A read found nothing. @param {string} kind @param {string} id @param {number} lsn */
    missing(kind, id, lsn) {
      note(merge.applyMissing(world, kind, id, lsn));
      soon();
    },
    /** Frames came. @param {LogEvent[]} events */
    receive(events) {
      waiting.push(...events);
      const ends = isHidden || isPaused ? events.filter(takesWords) : [];
      for (const end of ends) {
        takeWords(waiting, end);
        note(merge.foldEarly(world, end));
        changes.events.push(end);
      }
      if (ends.length) emit();
      const last = waiting.at(-1);
      if (last && waiting.length > WAITING_MOST) {
        missed = { count: missed.count + waiting.length, lsn: last.lsn };
        waiting = [];
      }
      later();
    },
    /** Nothing that is visible happened up to here. @param {number} lsn */
    reach(lsn) {
      if (waiting.length + missed.count === 0) merge.position(world, lsn);
    },
    /** What happened up to here was missed. */
    restart,
    kinds: () => Object.keys(world.kinds),
    /**
     * Forgets what is not shown any more; it is read again if somebody wants it.
     *
     * @param {string} kind
     * @param {string[]} ids
     */
    forget(kind, ids) {
      for (const id of ids) merge.forget(world, kind, id);
      const keys = ids.map((id) => `${kind}/${id}`);
      note({ dirty: keys, gone: keys });
      if (ids.length) later();
    },

    /**
     * Lays own changes above until they are answered.
     *
     * @param {string} write
     * @param {{kind: string, id: string, field: string, value: any}[]} fields
     */
    lay(write, fields) {
      for (const { kind, id, field, value } of fields) {
        overlay.lay(overlays, { write, kind, id, field, value });
        note({ dirty: [`${kind}/${id}`] });
      }
      soon();
    },
    /** @param {string} write @param {number} lsn */
    accepted(write, lsn) {
      overlay.accepted(overlays, write, lsn);
      note({ dirty: overlay.settle(overlays, world) });
      soon();
    },
    /** @param {string} write */
    refused(write) {
      note({ dirty: overlay.refused(overlays, write) });
      soon();
    },
    /** Whether something of one's own lies above an entity. @param {string} kind @param {string} id */
    isPending: (kind, id) => overlay.pending(overlays, kind, id).length > 0,

    /**
     * Marks keys as changed, for what the store cannot see: time, an own write under way.
     *
     * @param {string[]} keys
     */
    touch(keys) {
      note({ dirty: keys });
      soon();
    },
    /** @param {(changes: Changes) => void} watcher @returns {() => void} */
    watch(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    /**
     * Watches before all that shows something: what is counted or sorted of what is known.
     *
     * @param {(changes: Changes) => void} index
     * @returns {() => void}
     */
    index(index) {
      indexes.add(index);
      return () => indexes.delete(index);
    },
    /** @param {boolean} paused */
    pause(paused) {
      isPaused = paused;
      if (!paused) draw();
    },
    isPaused: () => isPaused,
    /** How many events wait for a draw. */
    waiting: () => missed.count + waiting.length,
    /** @param {boolean} hidden */
    hide(hidden) {
      isHidden = hidden;
      if (!hidden) draw();
    },
    close() {
      clearTimeout(timer);
      cancelAnimationFrame(frame);
      indexes.clear();
      watchers.clear();
    },
  };
}

/** The name that is among the lists when everything was missed, not one list alone. */
export const ALL = "all";

/** What is read anew after a gap: all that can be listed, and what is read by others by such a name. */
const ALL_LISTS = [...Object.keys(LISTINGS), "tokens", "last", "log"];
