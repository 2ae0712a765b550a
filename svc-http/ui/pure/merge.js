// Folds events and answers into what is known, in whatever order they arrive.
//
// Every entity knows up to which LSN it is known (`of`). An answer read at LSN R replaces an entity if R is not
// below that; an event changes it if its LSN is above. Events that follow an answer are folded in again, so that
// an old answer that comes late is as good as none. What an event does not carry makes an entity stale: it is
// to be read again, by whoever shows it. Values are set, never added to: an answer may know more than its LSN says.
//
// What each kind of event does stands in effects/. Nothing here reads anything, and nothing says when to read.

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
 * @property {number} lsn up to where events were seen
 * @property {number} floor up to where events are not kept any more
 * @property {{member_id: string, workspace_id: string}} me
 * @property {Record<string, Map<string, Entity>>} kinds
 * @property {LogEvent[]} events the newest, in order
 */
/**
 * @typedef {object} Changes
 * @property {Set<string>} dirty keys of what is not as it was
 * @property {Set<string>} gone keys of what is no more
 * @property {Set<string>} lists names of lists that only a read can tell
 */

const EVENTS_KEPT = 2000;
/** Trimming each time would copy the array for every event. */
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
 * Folds events, which are in the order of the log.
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
 * Folds an event before those that came before it, for what must not wait for them; it is folded again in its turn.
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
 * Puts in what was answered, read when the log had come to `lsn`.
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
    // What happened between the answer and the first event that is kept is unknown.
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
  // Lists were named when the events came.
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
 * A read found nothing. With a channel that is not seen any more all goes that is in it: no event says that to
 * who does not see it.
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
 * The log was looked through up to here, and nothing that is visible has happened.
 * @param {World} world
 * @param {number} lsn
 */
export function position(world, lsn) {
  world.lsn = Math.max(world.lsn, lsn);
}

/**
 * Events up to here were missed: all that is known has to be read again.
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
 * Folds one event; with `only`, into these entities alone.
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
    // What is stale already stays so: an answer that is older than this event will have it folded in again.
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
