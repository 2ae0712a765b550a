// Folds events and answers into the store, in whatever order they arrive.
//
// Guarantees: every entity has the LSN up to which it is known (`of`). An answer read at LSN R replaces an
// entity unless R is lower; an event changes the entity if its LSN is higher. Events after an answer are
// folded in again, so a late answer does no harm. An entity becomes stale if an event changes it without
// containing the new values; the screen that shows the entity reads it again. Values are set, never
// incremented, because an answer may be newer than its LSN.
//
// Not here: the effects of each kind of event (effects/), reading, and deciding when to read.

import { effectsOf } from "./effects/all.js";
import { insideOf } from "./effects/people.js";
import { takeWords } from "./effects/words.js";
import { idOf, own } from "./answered.js";

/** @typedef {import('./types.js').Entity} Entity */
/** @typedef {import('./types.js').Fields} Fields */
/** @typedef {import('./types.js').LogEvent} LogEvent */
/** @typedef {import('./effects/effect.js').Effect} Effect */

/**
 * @typedef {object} World
 * @property {number} lsn position up to which events were processed
 * @property {number} floor position up to which events were dropped
 * @property {{member_id: string, workspace_id: string}} me
 * @property {Record<string, Map<string, Entity>>} kinds
 * @property {LogEvent[]} events newest events, in order
 */
/**
 * @typedef {object} Changes
 * @property {Set<string>} dirty keys of changed entities
 * @property {Set<string>} gone keys of removed entities
 * @property {Set<string>} lists names of lists that must be read again
 */

const EVENTS_KEPT = 2000;
/** Threshold that avoids copying the array for every event. */
const TRIM_AT = EVENTS_KEPT + 500;

/**
 * @param {{member_id: string, workspace_id: string}} me
 * @returns {World}
 */
export function newWorld(me) {
  return { lsn: 0, floor: 0, me, kinds: {}, events: [] };
}

/** @returns {Changes} */
function noChanges() {
  return { dirty: new Set(), gone: new Set(), lists: new Set() };
}

/**
 * @param {World} world
 * @param {string} kind
 * @returns {Map<string, Entity>}
 */
export function all(world, kind) {
  return (world.kinds[kind] ??= new Map());
}

/**
 * @param {World} world
 * @param {string} kind
 * @param {string} id
 * @returns {Entity | undefined}
 */
export function entity(world, kind, id) {
  return world.kinds[kind]?.get(id);
}

/**
 * Folds events in the order of the log.
 * @param {World} world
 * @param {LogEvent[]} events
 * @returns {Changes}
 */
export function applyEvents(world, events) {
  const changes = noChanges();
  for (const event of events) {
    if (event.lsn <= world.lsn) continue;
    fold(world, event, changes, null);
    takeWords(world.events, event);
    world.events.push(event);
    world.lsn = event.lsn;
  }
  if (world.events.length > TRIM_AT) trim(world);
  return changes;
}

/**
 * Folds an event before earlier ones that wait. It is folded again in order.
 * @param {World} world
 * @param {LogEvent} event
 * @returns {Changes}
 */
export function foldEarly(world, event) {
  const changes = noChanges();
  fold(world, event, changes, null);
  takeWords(world.events, event);
  changes.lists.clear();
  return changes;
}

/** @param {World} world */
function trim(world) {
  const over = world.events.length - EVENTS_KEPT;
  world.floor = Math.max(world.floor, world.events[over - 1].lsn);
  world.events = world.events.slice(over);
}

/**
 * Stores entities from an answer that was read at position `lsn`.
 * @param {World} world
 * @param {string} kind
 * @param {Fields | Fields[]} fields
 * @param {number} lsn
 * @returns {Changes}
 */
export function applyAnswer(world, kind, fields, lsn) {
  const changes = noChanges();
  const known = all(world, kind);
  const put = new Set();
  for (const one of Array.isArray(fields) ? fields : [fields]) {
    const id = idOf(kind, one);
    const before = known.get(id);
    if (before && lsn < before.of) continue;
    // Events between the answer and the first kept event are unknown.
    known.set(id, { ...own(kind, one), id, of: lsn, stale: lsn < world.floor });
    put.add(`${kind}/${id}`);
  }
  if (put.size) foldAgain(world, lsn, put, changes);
  for (const key of put) changes.dirty.add(key);
  return changes;
}

/**
 * @param {World} world
 * @param {number} lsn
 * @param {Set<string>} only
 * @param {Changes} changes
 */
function foldAgain(world, lsn, only, changes) {
  for (let at = firstAfter(world.events, lsn); at < world.events.length; at += 1) {
    fold(world, world.events[at], changes, only);
  }
  // The lists were reported when the events arrived.
  changes.lists.clear();
}

/**
 * @param {LogEvent[]} events
 * @param {number} lsn
 * @returns {number}
 */
function firstAfter(events, lsn) {
  let [low, high] = [0, events.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (events[middle].lsn <= lsn) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Removes an entity that a read did not find.
 *
 * Removing a channel removes its contents too, because members who cannot see a channel receive no events
 * about it.
 *
 * @param {World} world
 * @param {string} kind
 * @param {string} id
 * @param {number} lsn
 * @returns {Changes}
 */
export function applyMissing(world, kind, id, lsn) {
  const changes = noChanges();
  const before = entity(world, kind, id);
  if (!before || before.of > lsn) return changes;
  remove(world, kind, id, changes);
  if (kind === "channel") {
    for (const effect of insideOf(id, world)) apply(world, lsn, effect, changes, null);
    world.events = world.events.filter(({ payload }) => payload.$chain.channel_id !== id);
  }
  return changes;
}

/**
 * Advances the position after a read that found no visible events up to `lsn`.
 * @param {World} world
 * @param {number} lsn
 */
export function position(world, lsn) {
  world.lsn = Math.max(world.lsn, lsn);
}

/**
 * Marks everything as stale because events up to `lsn` were missed.
 * @param {World} world
 * @param {number} lsn
 * @returns {Changes}
 */
export function restart(world, lsn) {
  const changes = noChanges();
  world.events = [];
  world.lsn = Math.max(world.lsn, lsn);
  world.floor = world.lsn;
  for (const [kind, known] of Object.entries(world.kinds)) {
    for (const [id, before] of known) {
      known.set(id, { ...before, of: Math.max(before.of, lsn), stale: true });
      changes.dirty.add(`${kind}/${id}`);
    }
  }
  return changes;
}

/**
 * @param {World} world
 * @param {string} kind
 * @param {string} id
 */
export function forget(world, kind, id) {
  world.kinds[kind]?.delete(id);
}

/**
 * Folds one event; with `only`, into those entities alone.
 * @param {World} world
 * @param {LogEvent} event
 * @param {Changes} changes
 * @param {Set<string> | null} only
 */
function fold(world, event, changes, only) {
  for (const effect of effectsOf(event, world)) apply(world, event.lsn, effect, changes, only);
}

/**
 * @param {World} world
 * @param {number} lsn
 * @param {Effect} effect
 * @param {Changes} changes
 * @param {Set<string> | null} only
 */
function apply(world, lsn, effect, changes, only) {
  if ("list" in effect) changes.lists.add(effect.list);
  else if ("each" in effect) foldEach(world, lsn, effect, changes, only);
  else if (!only || only.has(`${effect.on}/${effect.id}`)) change(world, lsn, effect, changes);
}

/**
 * @param {World} world
 * @param {number} lsn
 * @param {import('./effects/effect.js').Each} effect
 * @param {Changes} changes
 * @param {Set<string> | null} only
 */
function foldEach(world, lsn, effect, changes, only) {
  const { each, where, ...rest } = effect;
  for (const [id, known] of world.kinds[each] ?? []) {
    if (only && !only.has(`${each}/${id}`)) continue;
    // A stale entity stays stale. An answer older than this event will fold the event in again.
    if (known.stale && rest.stale && !rest.patch) continue;
    if (where(known)) change(world, lsn, { on: each, id, ...rest }, changes);
  }
}

/**
 * @param {World} world
 * @param {number} lsn
 * @param {import('./effects/effect.js').One} effect
 * @param {Changes} changes
 */
function change(world, lsn, { on, id, patch, make, stale, gone }, changes) {
  const before = entity(world, on, id);
  if (before ? before.of >= lsn : !make) return;
  if (gone) return remove(world, on, id, changes);
  const fields = before ? { ...before, ...(typeof patch === "function" ? patch(before) : patch) } : make;
  all(world, on).set(id, { ...fields, id, of: lsn, stale: Boolean(before?.stale || stale) });
  changes.dirty.add(`${on}/${id}`);
  changes.gone.delete(`${on}/${id}`);
}

/**
 * @param {World} world
 * @param {string} kind
 * @param {string} id
 * @param {Changes} changes
 */
function remove(world, kind, id, changes) {
  world.kinds[kind]?.delete(id);
  changes.dirty.add(`${kind}/${id}`);
  changes.gone.add(`${kind}/${id}`);
}

export { idOf } from "./answered.js";
export { KINDS_HANDLED } from "./effects/all.js";
export { iso, placeOf } from "./effects/effect.js";
