// The known data of the workspace, and its watchers.
//
// Guarantees: events and answers are merged in any order (pure/merge.js), below unconfirmed own changes
// (pure/overlay.js); watchers are called at most once in 250 ms, or at the next frame after something of the
// user's own; while paused only the latter, and while hidden not at all, and other changes are reported on
// return; but withdrawn content is removed immediately. Not here: reading (reads.js), and the page.

import { takeWords, takesWords } from "../pure/effects/words.js";
import * as merge from "../pure/merge.js";
import * as overlay from "../pure/overlay.js";
import { LISTINGS } from "./entities.js";

/** @typedef {import("../pure/types.js").Entity} Entity */
/** @typedef {import("../pure/types.js").Fields} Fields */
/** @typedef {import("../pure/types.js").LogEvent} LogEvent */
/**
 * Changes since the last draw: keys (`kind/id`) of entities, and names of lists that have to be read again.
 *
 * @typedef {{dirty: Set<string>, gone: Set<string>, lists: Set<string>, events: LogEvent[]}} Changes
 */

const DRAW_EVERY = 250;
/** Maximum waiting events; beyond that they are dropped and their data is read again. */
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
  /** Events that were dropped because too many waited: their number and last position. */
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

  /** Draws at the next frame, after something of the user's own. */
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
    // While paused, events of other members wait, but answers to the user's own requests are drawn.
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
    /** Returns the kept events, oldest first. */
    events: () => world.events,
    lsn: () => world.lsn,

    /** Merges an answer. @param {string} kind @param {Fields | Fields[]} fields @param {number} lsn */
    put(kind, fields, lsn) {
      note(merge.applyAnswer(world, kind, fields, lsn));
      note({ dirty: overlay.settle(overlays, world) });
      soon();
    },
    /** Records that a read found nothing. @param {string} kind @param {string} id @param {number} lsn */
    missing(kind, id, lsn) {
      note(merge.applyMissing(world, kind, id, lsn));
      soon();
    },
    /** Queues events from the socket. @param {LogEvent[]} events */
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
    /** Advances the position; no visible event up to it is missing. @param {number} lsn */
    reach(lsn) {
      if (waiting.length + missed.count === 0) merge.position(world, lsn);
    },
    /** Marks data as stale, because events up to a position were missed. */
    restart,
    kinds: () => Object.keys(world.kinds),
    /**
     * Evicts entities that are no longer shown; they are read again when a caller wants them.
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
     * Applies the user's own changes until they are confirmed or refused.
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
    /** Returns whether an entity has unconfirmed own changes. @param {string} kind @param {string} id */
    isPending: (kind, id) => overlay.pending(overlays, kind, id).length > 0,

    /**
     * Marks keys as changed because of something outside the store, such as time or an own write.
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
     * Watches before all watchers that draw, to update counts and orders first.
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
    /** Returns how many events wait for a draw. */
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

/** Name among the lists that means that everything was missed. */
export const ALL = "all";

/** Lists that are read again after a gap: all listings, and those that other modules read. */
const ALL_LISTS = [...Object.keys(LISTINGS), "tokens", "last", "log"];
