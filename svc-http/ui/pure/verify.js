// Verifies an event log by the rules of svc-log(7): hash and columns of each event, links, floor and head.
//
// Guarantees: a whole log contains every event since its floor. In a log that the user sees in part, a link
// next to a withheld event is unchecked and withheld events are counted; visible events are verified all the
// same. A run stops at the first broken event. It keeps only counts, the last hash, and the values to compare
// the end with. Not here: reading.

import { hashOf } from "./hash.js";

/** @typedef {import("./types.js").LogEvent} LogEvent */
/** @typedef {{lsn: number, hash: string}} Head */
/** @typedef {{lsn: number, content_hash: string, at?: string}} Pin a head that was proved before */
/** @typedef {"missing" | "stray" | "unreadable" | "columns" | "type" | "content" | "link" | "time" | "floor" | "head"} Defect */
/** @typedef {{lsn: number, defect: Defect}} Break */
/**
 * @typedef {"new" | "same" | "rewritten" | "rolled-back" | "pruned" | "withheld"} PinState the state of a pin
 */
/**
 * @typedef {object} Run
 * @property {string} workspace_id
 * @property {boolean} whole whether the log must contain every event
 * @property {number} floor beginning of the log, as reported by the workspace
 * @property {Head} head end of the log, as reported by the workspace
 * @property {Pin | null} pin
 * @property {PinState} pinned
 * @property {number} lsn position up to which the log was verified
 * @property {string | null} hash the hash of the event at `lsn`; null if it is withheld
 * @property {number} at the time of the event at `lsn`
 * @property {number} checked
 * @property {number} withheld
 * @property {string | null} floorLink hash that the event at the floor links to
 * @property {{lsn: number, floor: number, prev_hash: string} | null} pruning newest event that declares a
 * pruning
 * @property {Break | null} broken
 */
/**
 * @typedef {object} Report
 * @property {"whole" | "part" | "broken"} state `part`: the visible events are valid, and others are withheld
 * @property {Break | null} broken
 * @property {number} checked
 * @property {number} withheld
 * @property {number} floor
 * @property {Head} head
 * @property {PinState} pinned
 */

/** Hash that the first event of every log links to: SHA-256 of `svc.event-log.genesis/1`. */
export const GENESIS = "sha256:e826b243eb4338f04a2320083c5870a47d8814e02869bb305777062f32343ce6";

/**
 * Returns canonical JSON (RFC 8785).
 * @param {any} value parsed JSON
 * @returns {string}
 */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.keys(value).sort();
  return `{${members.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

/**
 * @param {{workspace_id: string, whole: boolean, floor: number, head: Head, pin?: Pin | null}} log
 * @returns {Run}
 */
export function newRun({ workspace_id, whole, floor, head, pin = null }) {
  return {
    workspace_id,
    whole,
    floor,
    head,
    pin,
    pinned: pin ? firstThought(pin, floor, head) : "new",
    lsn: 0,
    hash: null,
    at: -Infinity,
    checked: 0,
    withheld: 0,
    floorLink: null,
    pruning: null,
    broken: null,
  };
}

/**
 * Returns the state of a pin before the log is read.
 * @param {Pin} pin
 * @param {number} floor
 * @param {Head} head
 * @returns {PinState}
 */
function firstThought(pin, floor, head) {
  if (head.lsn < pin.lsn) return "rolled-back";
  return pin.lsn < floor ? "pruned" : "withheld";
}

/**
 * Verifies the next events, in order, and then skips to `upTo`.
 * @param {Run} run
 * @param {LogEvent[]} events
 * @param {number} [upTo] position up to which `events` contains all visible events
 * @returns {Promise<Run>}
 */
export async function take(run, events, upTo = 0) {
  let next = run;
  for (const event of events) {
    if (next.broken) return next;
    next = await accept(next, event);
  }
  return !next.broken && upTo > next.lsn ? passOver(next, upTo) : next;
}

/**
 * @param {Run} run
 * @param {number} lsn last position without a visible event
 * @returns {Run}
 */
function passOver(run, lsn) {
  const first = run.lsn === 0 ? run.floor : run.lsn + 1;
  if (run.whole) return { ...run, broken: { lsn: first, defect: "missing" } };
  return { ...run, lsn, hash: null, withheld: run.withheld + Math.max(0, lsn - first + 1) };
}

/**
 * @param {Run} run
 * @param {LogEvent} event
 * @returns {Promise<Run>}
 */
async function accept(run, event) {
  const lsn = event?.lsn;
  if (!Number.isSafeInteger(lsn)) return { ...run, broken: { lsn: run.lsn + 1, defect: "unreadable" } };
  if (lsn <= run.lsn) return { ...run, broken: { lsn, defect: "stray" } };
  const begun = lsn === run.lsn + 1 ? run : reach(run, lsn);
  if (begun.broken) return begun;
  const defect = (await defectOf(event, run.workspace_id)) ?? linkDefect(begun, event);
  if (defect) return { ...begun, broken: { lsn, defect } };
  return passed(begun, event);
}

/**
 * Advances to the event before `lsn`, past missing events.
 * @param {Run} run
 * @param {number} lsn
 * @returns {Run}
 */
function reach(run, lsn) {
  // Events below the floor may still exist for a while.
  if (run.lsn === 0 && lsn <= run.floor) return { ...run, lsn: lsn - 1, hash: null };
  return passOver(run, lsn - 1);
}

/**
 * @param {Run} run
 * @param {LogEvent} event
 * @returns {Defect | null}
 */
function linkDefect(run, event) {
  if (event.lsn === 1 ? event.prev_hash !== GENESIS : run.hash !== null && event.prev_hash !== run.hash) return "link";
  if (event.payload.$chain.at < run.at) return "time";
  return event.lsn === run.head.lsn && event.content_hash !== run.head.hash ? "head" : null;
}

/**
 * @param {Run} run
 * @param {LogEvent} event
 * @returns {Run}
 */
function passed(run, event) {
  const { lsn, content_hash, prev_hash, kind, payload } = event;
  return {
    ...run,
    lsn,
    hash: content_hash,
    at: payload.$chain.at,
    checked: run.checked + 1,
    floorLink: lsn === run.floor ? prev_hash : run.floorLink,
    pruning: kind === "EventsPruned" ? { lsn, floor: payload.floor, prev_hash: payload.prev_hash } : run.pruning,
    pinned: run.pin?.lsn === lsn ? (run.pin.content_hash === content_hash ? "same" : "rewritten") : run.pinned,
  };
}

const COLUMNS = ["at", "channel_id", "kind", "lsn", "member_id", "prev_hash", "thread_id", "workspace_id"];

/**
 * Returns the defect of an event on its own; null if it has none.
 * @param {LogEvent} event
 * @param {string} workspace_id
 * @returns {Promise<Defect | null>}
 */
export async function defectOf(event, workspace_id) {
  const { payload, kind, lsn, prev_hash, content_hash } = event;
  const chain = payload?.$chain;
  if (typeof chain !== "object" || chain === null || typeof kind !== "string") return "unreadable";
  const shown = { ...chain, kind, lsn, prev_hash, workspace_id };
  if (Object.keys(chain).sort().join() !== COLUMNS.join() || canonical(shown) !== canonical(chain)) return "columns";
  if (!Number.isSafeInteger(chain.at)) return "unreadable";
  const type = `svc.event.${kind}/1`;
  const told = /** @type {any} */ (event);
  if (payload.$type !== type || told.$type !== type) return "type";
  if (told.id !== lsn) return "columns";
  const [first, second] = Object.keys(payload).sort();
  if (first !== "$chain" || second !== "$type") return "type";
  return (await hashOf(canonical(payload))) === content_hash ? null : "content";
}

/**
 * Returns the findings of a run after its last event.
 * @param {Run} run
 * @returns {Report}
 */
export function finish(run) {
  const ended = run.broken ? run : run.lsn < run.head.lsn ? passOver(run, run.head.lsn) : run;
  const broken = ended.broken ?? floorBreak(ended);
  const { checked, withheld, floor, head, pinned } = ended;
  const state = broken ? "broken" : withheld > 0 ? "part" : "whole";
  return { state, broken, checked, withheld, floor, head, pinned };
}

/**
 * Checks that the log begins at the floor, and with the link, that the newest pruning declared.
 * @param {Run} run
 * @returns {Break | null}
 */
function floorBreak({ floor, floorLink, pruning, lsn }) {
  if (floor === 1) return pruning ? { lsn: pruning.lsn, defect: "floor" } : null;
  if (!pruning) return { lsn, defect: "floor" };
  const isDeclared = pruning.floor === floor && floor <= pruning.lsn;
  const isLinked = floorLink === null || floorLink === pruning.prev_hash;
  return isDeclared && isLinked ? null : { lsn: pruning.lsn, defect: "floor" };
}

/**
 * Returns the pin that a run has proved; only a log that was seen whole proves its head.
 * @param {Report} report
 * @param {string} at
 * @returns {Pin | null}
 */
export function pinOf(report, at) {
  return report.state === "whole" ? { lsn: report.head.lsn, content_hash: report.head.hash, at } : null;
}
