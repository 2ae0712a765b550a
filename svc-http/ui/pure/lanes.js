// In which lane of the board a thread stands, and whether it needs me. Nobody drags: lanes follow from what is known.

import { ms } from "./clock.js";

/** @typedef {import("./types.js").Thread} Thread */
/** @typedef {import("./types.js").Gate} Gate */
/** @typedef {import("./types.js").Me} Me */
/** @typedef {import("./types.js").Alarm} Alarm */
/** @typedef {import("./types.js").Conflict} Conflict */
/** @typedef {"needs-you" | "running" | "blocked" | "ready" | "in-review" | "done"} Lane */
/** @typedef {{gate: boolean, review: boolean, dead: boolean, unacknowledged: boolean}} Needs what of a thread needs me */

/** The lanes in the order in which they stand. @type {Lane[]} */
export const LANES = ["needs-you", "running", "blocked", "ready", "in-review", "done"];

/**
 * @param {Thread} thread
 * @returns {boolean}
 */
export function isDone(thread) {
  return thread.state === "closed" || thread.state === "archived";
}

/**
 * Whether somebody works on it. A lease that is due may have been renewed: until the server says, it goes on.
 * @param {Thread} thread
 * @returns {boolean}
 */
export function isLive(thread) {
  return !isDone(thread) && thread.assignee_id !== null;
}

/**
 * Whether its work was handed in and waits for judgement.
 * @param {Thread} thread
 * @returns {boolean}
 */
export function isHandedIn(thread) {
  return thread.state === "in_review" || (thread.state === "open" && thread.has_result);
}

/**
 * @param {Thread} thread
 * @param {Conflict[] | undefined} obstacles as the list of deferred threads has them
 * @returns {boolean}
 */
export function isBlocked(thread, obstacles) {
  return thread.blocked > 0 || thread.exhausted || thread.dead || Boolean(obstacles?.length);
}

/**
 * @param {Thread} thread
 * @param {{needs: Needs, obstacles?: Conflict[]}} about
 * @returns {Lane} the first that holds
 */
export function laneOf(thread, { needs, obstacles }) {
  if (Object.values(needs).includes(true)) return "needs-you";
  if (isDone(thread)) return "done";
  if (thread.state === "in_review") return "in-review";
  if (isLive(thread)) return "running";
  if (isHandedIn(thread)) return "in-review";
  return isBlocked(thread, obstacles) ? "blocked" : "ready";
}

/**
 * Whether I may answer an approval: if not, why.
 * @param {Gate} gate
 * @param {Me} me
 * @returns {"yes" | "own" | "needs-person" | "capability" | "over"}
 */
export function canAnswer(gate, me) {
  if (gate.state !== "pending") return "over";
  if (gate.requested_by === me.member_id) return "own";
  if (gate.needs_person && me.kind !== "human") return "needs-person";
  return me.mayGrant ? "yes" : "capability";
}

/**
 * Whether an approval waits for me: a person who may not accept it can with a token that may.
 * @param {Gate} gate
 * @param {Me} me
 * @returns {boolean}
 */
export function awaitsMe(gate, me) {
  const standing = canAnswer(gate, me);
  return standing === "yes" || (standing === "capability" && me.kind === "human");
}

/**
 * Whether a member sees what is in a channel.
 * @param {import("./types.js").Fields} member
 * @param {import("./types.js").Fields | undefined} channel
 * @param {Set<string>} inside who is in it, of one that is private
 * @returns {boolean}
 */
export function canSee(member, channel, inside) {
  return member.active !== false && (!channel?.private || inside.has(member.id));
}

/**
 * The capability that accepts an approval: of those that may decide one, which also whoever asked may in part, the one that
 * asking does not need.
 * @param {string} decides what deciding needs, as the table of operations says
 * @param {string} asks what asking needs
 * @returns {string}
 */
export function granting(decides, asks) {
  return decides.split("|").find((one) => !asks.split("|").includes(one)) ?? "";
}

/**
 * @param {Thread} thread
 * @param {Alarm | undefined} alarm
 * @returns {boolean} whether its holder has not said that it works, and was late with that
 */
export function isUnacknowledged(thread, alarm) {
  if (alarm?.reason !== "unacknowledged" || !isLive(thread) || thread.acknowledged_at !== null) return false;
  return alarm.claim_lease_id === null || alarm.claim_lease_id === thread.claim_lease_id;
}

/**
 * @param {Thread} thread
 * @param {Alarm | undefined} alarm
 * @returns {boolean} whether its last claim lapsed, and nobody has taken it up since
 */
export function isLapsed(thread, alarm) {
  const isFree = thread.state === "open" && thread.assignee_id === null && !thread.has_result && !thread.dead;
  return alarm?.reason === "lapsed" && isFree;
}

/**
 * Whether a thread is mine to look after: I am responsible for it, or it has nobody else.
 * @param {Thread} thread
 * @param {Me} me
 * @returns {boolean}
 */
export function isMine(thread, me) {
  return thread.owner_id === me.member_id || thread.assignee_id === me.member_id || thread.owner_id === null;
}

/**
 * @param {Thread} thread
 * @param {{me: Me, gates: Gate[], awaited: boolean, alarm?: Alarm, letter?: boolean}} about `gates`: of this thread;
 * `awaited`: whether its review is awaited of me; `letter`: whether it has a dead letter that is not settled
 * @returns {Needs}
 */
export function needsMe(thread, { me, gates, awaited, alarm, letter = thread.dead }) {
  return {
    gate: gates.some((gate) => awaitsMe(gate, me)),
    review: awaited && !isDone(thread),
    dead: letter && !isDone(thread) && isMine(thread, me),
    unacknowledged: isUnacknowledged(thread, alarm) && isMine(thread, me),
  };
}

const NO_NEEDS = { gate: false, review: false, dead: false, unacknowledged: false };

/**
 * @param {Thread} thread
 * @param {{me: Me, gates?: Gate[], awaited?: boolean, alarm?: Alarm, obstacles?: Conflict[]}} about
 * @returns {Lane}
 */
export function laneFor(thread, { me, gates = [], awaited = false, alarm, obstacles }) {
  const isQuiet = gates.length === 0 && !awaited && !alarm && !thread.dead;
  const needs = isQuiet ? NO_NEEDS : needsMe(thread, { me, gates, awaited, alarm });
  return laneOf(thread, { needs, obstacles });
}

/**
 * The order in a lane: what is given out first stands first; of what runs, what ends first; of what is done, the last.
 * @param {Lane} lane
 * @param {(id: string) => number | undefined} [closedAt] the position of a closing, as far as it is known; all others were before
 * @returns {(one: Thread, other: Thread) => number}
 */
export function compareInLane(lane, closedAt = () => undefined) {
  const byAge = (/** @type {Thread} */ one, /** @type {Thread} */ other) => one.lsn - other.lsn;
  const closing = (/** @type {Thread} */ { id, lsn }) => closedAt(id) ?? lsn;
  if (lane === "done") return (one, other) => closing(other) - closing(one);
  if (lane === "running") return (one, other) => end(one) - end(other) || byAge(one, other);
  return (one, other) => other.priority - one.priority || byAge(one, other);
}

/** @param {Thread} thread */
const end = (thread) => ms(thread.assignment_expires_at) ?? Infinity;
