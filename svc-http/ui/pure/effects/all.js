// Effects of all kinds of events on the store. An event of an unknown kind marks its thread as stale.

import { placeOf, stale } from "./effect.js";
import { CLAIMS } from "./claims.js";
import { GATES } from "./gates.js";
import { PEOPLE } from "./people.js";
import { THREADS } from "./threads.js";
import { WORDS } from "./words.js";
import { WORKSPACE } from "./workspace.js";

/** @typedef {import('./effect.js').Case} Case */
/** @typedef {import('./effect.js').Effect} Effect */
/** @typedef {import('../types.js').LogEvent} LogEvent */

/** @type {Record<string, Case>} */
const CASES = { ...THREADS, ...CLAIMS, ...GATES, ...WORDS, ...PEOPLE, ...WORKSPACE };

/** Kinds of events with a case of their own. */
export const KINDS_HANDLED = Object.keys(CASES);

/** Kinds of events that change neither who may claim a thread nor the requirements of its close. */
const QUIET = new Set([
  "MessagePosted",
  "MessageEdited",
  "MessagePinned",
  "MessageUnpinned",
  "ReactionAdded",
  "ReactionRemoved",
  "VoteOpened",
  "BallotCast",
  "VoteClosed",
]);

/**
 * @param {LogEvent} event
 * @param {import('../merge.js').World} world
 * @returns {Effect[]}
 */
export function effectsOf(event, world) {
  const place = placeOf(event);
  const made = CASES[event.kind] ? CASES[event.kind](event.payload, place, world, event) : unknown(place);
  const tells = place.thread && !QUIET.has(event.kind);
  return tells ? [...made, stale("context", place.thread)] : made;
}

/**
 * @param {import('./effect.js').Place} place
 * @returns {Effect[]}
 */
function unknown({ thread }) {
  return thread ? [stale("thread", thread)] : [];
}
