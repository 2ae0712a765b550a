// Computes the lane of a thread on the board, and whether the thread needs the user.
//
// Guarantees: a lane follows from the data alone; cards are not dragged.

import { ms } from "./clock.js";

/** @typedef {import("./types.js").Thread} Thread */
/** @typedef {import("./types.js").Gate} Gate */
/** @typedef {import("./types.js").Me} Me */
/** @typedef {import("./types.js").Alarm} Alarm */
/** @typedef {import("./types.js").Conflict} Conflict */
/** @typedef {"needs-you" | "running" | "blocked" | "ready" | "in-review" | "done"} Lane */
/**
 * @typedef {{gate: boolean, review: boolean, dead: boolean, unacknowledged: boolean}} Needs reasons why a
 * thread needs the user
 */

/** Lanes, in the order on the board. @type {Lane[]} */
export const LANES = ["needs-you", "running", "blocked", "ready", "in-review", "done"];

/**
 * @param {Thread} thread
 * @returns {boolean}
 */
export function isDone(thread) {
  return thread.state === "closed" || thread.state === "archived";
}

/**
 * Returns whether a claim of the thread is live.
 *
 * A lease that is due may have been renewed, so the claim counts as live until the server reports its end.
 *
 * @param {Thread} thread
 * @returns {boolean}
 */
export function isLive(thread) {
  return !isDone(thread) && thread.assignee_id !== null;
}

/**
 * Returns whether a result was submitted and awaits review.
 * @param {Thread} thread
 * @returns {boolean}
 */
export function isHandedIn(thread) {
  return thread.state === "in_review" || (thread.state === "open" && thread.has_result);
}

/**
 * @param {Thread} thread
 * @param {Conflict[] | undefined} obstacles as in the list of deferred threads
 * @returns {boolean}
 */
export function isBlocked(thread, obstacles) {
  return thread.blocked > 0 || thread.exhausted || thread.dead || Boolean(obstacles?.length);
}

/**
 * @param {Thread} thread
 * @param {{needs: Needs, obstacles?: Conflict[]}} about
 * @returns {Lane} the first lane that applies
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
 * Returns "yes" if the user may decide an approval request, or the reason why not.
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
 * Returns whether an approval request waits for the user.
 *
 * A person without the capability can use a token that has it.
 *
 * @param {Gate} gate
 * @param {Me} me
 * @returns {boolean}
 */
export function awaitsMe(gate, me) {
  const standing = canAnswer(gate, me);
  return standing === "yes" || (standing === "capability" && me.kind === "human");
}

/**
 * Returns whether a member can see the contents of a channel.
 * @param {import("./types.js").Fields} member
 * @param {import("./types.js").Fields | undefined} channel
 * @param {Set<string>} inside ids of the members of a private channel
 * @returns {boolean}
 */
export function canSee(member, channel, inside) {
  return member.active !== false && (!channel?.private || inside.has(member.id));
}

/**
 * Returns the capability that accepts an approval.
 *
 * Of the capabilities that can decide a request, it is the one that creating a request does not need.
 *
 * @param {string} decides capabilities of deciding, from the table of operations
 * @param {string} asks capabilities of requesting
 * @returns {string}
 */
export function granting(decides, asks) {
  return decides.split("|").find((one) => !asks.split("|").includes(one)) ?? "";
}

/**
 * @param {Thread} thread
 * @param {Alarm | undefined} alarm
 * @returns {boolean} whether the holder is late with acknowledging the claim
 */
export function isUnacknowledged(thread, alarm) {
  if (alarm?.reason !== "unacknowledged" || !isLive(thread) || thread.acknowledged_at !== null) return false;
  return alarm.claim_lease_id === null || alarm.claim_lease_id === thread.claim_lease_id;
}

/**
 * @param {Thread} thread
 * @param {Alarm | undefined} alarm
 * @returns {boolean} whether the last claim expired and the thread has not been claimed since
 */
export function isLapsed(thread, alarm) {
  const isFree = thread.state === "open" && thread.assignee_id === null && !thread.has_result && !thread.dead;
  return alarm?.reason === "lapsed" && isFree;
}

/**
 * Returns whether the user looks after a thread: as its owner or holder, or because it has no owner.
 * @param {Thread} thread
 * @param {Me} me
 * @returns {boolean}
 */
export function isMine(thread, me) {
  return thread.owner_id === me.member_id || thread.assignee_id === me.member_id || thread.owner_id === null;
}

/**
 * @param {Thread} thread
 * @param {{me: Me, gates: Gate[], awaited: boolean, alarm?: Alarm, letter?: boolean}} about `gates`: gates of
 * this thread; `awaited`: whether the user's review is requested; `letter`: whether the thread has an open
 * dead letter
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
 * Returns the order within a lane.
 *
 * Running threads are sorted by lease end, done threads by closing (latest first), others by priority.
 *
 * @param {Lane} lane
 * @param {(id: string) => number | undefined} [closedAt] returns the position of a closing; unknown ones are
 * earlier
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
