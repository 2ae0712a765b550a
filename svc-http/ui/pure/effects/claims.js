// Effects of events about claims, results and budgets on the store.

import { lists, patch, set, stale, staleEach } from "./effect.js";

/** @typedef {import('./effect.js').Case} Case */
/** @typedef {import('./effect.js').Effect} Effect */
/** @typedef {import('./effect.js').Place} Place */
/** @typedef {import('../merge.js').World} World */
/** @typedef {import('../types.js').Conflict} Conflict */

const NO_CLAIM = { assignee_id: null, claim_lease_id: null, assignment_expires_at: null, acknowledged_at: null };

/**
 * Reasons for the end of a claim that count as an attempt, after which the budget is known not to be used up.
 */
const ATTEMPTS = new Set(["released", "expired", "frozen", "deactivated"]);
/** Reasons for the end of a claim after which the budget may be used up without an event. */
const ENDS = new Set(["result", "closed", "cancelled"]);

/**
 * Returns whether the user is notified: an administrator ended the user's claim, or the user was handed one.
 *
 * @param {any} payload
 * @param {World} world
 */
const tellsMe = ({ reason, assignee_id, previous_assignee_id, administrator_id }, { me }) =>
  (reason === "handed_off" && assignee_id === me.member_id) ||
  (Boolean(administrator_id) && previous_assignee_id === me.member_id);

/** @type {Record<string, Case>} */
export const CLAIMS = {
  ThreadAssignmentChanged: (payload, { thread, ...place }, world) => [
    { ...patch("thread", thread, assigned(payload)), stale: mayBeSpent(payload.reason, thread, world) },
    ...(payload.reason === "expired" ? [] : [{ on: "alarm", id: thread, gone: true }]),
    set("assigned", thread, lastClaim(payload, place)),
    stale("budget", thread),
    stale("review_status", thread),
    stale("land_gate", thread),
    staleEach("context"),
    ...lists("deferred", "occupancy", "slots"),
    ...(tellsMe(payload, world) ? lists("inbox") : []),
  ],
  ClaimAcknowledged: (payload, { thread, at }) => [
    patch("thread", thread, { acknowledged_at: at }),
    { on: "alarm", id: thread, gone: true },
    stale("review_status", thread),
    stale("land_gate", thread),
  ],
  ClaimRenewed: (payload, { thread }) => [
    patch("thread", thread, { assignment_expires_at: payload.expires_at }),
    stale("budget", thread),
    stale("review_status", thread),
    stale("land_gate", thread),
    renewedInTheWay(thread, payload.expires_at),
  ],
  ClaimExpired: (payload, place, world) => [
    patch("thread", place.thread, NO_CLAIM),
    alarm("lapsed", payload, place, world),
    ...lists("inbox"),
  ],
  ClaimUnacknowledged: (payload, place, world) => [alarm("unacknowledged", payload, place, world), ...lists("inbox")],
  ClaimFailed: (payload, place, world) => [
    patch("thread", place.thread, { dead: true, exhausted: true }),
    set("dead_letter", payload.dead_letter_id, letter(payload, place, world)),
    stale("budget", place.thread),
    ...lists("dead_letters", "deferred", "occupancy", "inbox"),
  ],
  DeadLetterRequeued: ({ dead_letter_id }, { thread, at }) => [
    patch("dead_letter", dead_letter_id, { settled_at: at }),
    patch("thread", thread, { dead: false, exhausted: false }),
    stale("budget", thread),
    ...lists("deferred", "occupancy"),
  ],
  ClaimCheckpointed: () => [],
  ThreadResultSet: ({ produced_by }, { thread }, { kinds, me }) => {
    const known = kinds.thread?.get(thread);
    const isAwaited = [known?.owner_id, known?.created_by].includes(me.member_id) && produced_by !== me.member_id;
    return [
      patch("thread", thread, { has_result: true }),
      stale("result", thread),
      stale("review_status", thread),
      stale("land_gate", thread),
      ...(isAwaited ? lists("inbox") : []),
    ];
  },
  ThreadBudgetSet: (payload, { thread }) => [
    { ...patch("budget", thread, limits(payload)), stale: true },
    stale("thread", thread),
    ...lists("deferred", "occupancy"),
  ],
  UsageReported: (_, { thread }, world) => [
    stale("budget", thread),
    stale("usage", thread),
    ...(isUnlimited(thread, world) ? [] : [stale("thread", thread)]),
    ...lists("usage"),
  ],
  SpawnBudgetSet: () => lists("spawn_budget"),
  RepoPaused: ({ repo, reason }, place) => [
    // If the repository is already paused, only the reason changes.
    { ...patch("pause", repo.toLowerCase(), { reason }), make: pause(repo, reason, place) },
    staleEach("context"),
    ...lists("deferred", "occupancy"),
  ],
  RepoResumed: ({ repo }) => [
    { on: "pause", id: repo.toLowerCase(), gone: true },
    staleEach("context"),
    ...lists("deferred", "occupancy"),
  ],
  SlotCapacitySet: ({ slot, capacity }) => [
    patch("slot", slot.toLowerCase(), { capacity }),
    staleEach("context"),
    ...lists("slots", "deferred", "occupancy"),
  ],
  SlotCapacityCleared: ({ slot }) => [
    patch("slot", slot.toLowerCase(), { capacity: null }),
    staleEach("context"),
    ...lists("slots", "deferred", "occupancy"),
  ],
};

/**
 * Returns how a claim began or ended, in the format of an alarm. An expired claim raises one.
 * @param {any} payload
 * @param {Pick<Place, "at" | "lsn">} place
 */
export const lastClaim = ({ reason, previous_assignee_id }, { at, lsn }) => ({
  reason: reason === "expired" ? "lapsed" : reason,
  member_id: previous_assignee_id,
  at,
  lsn,
});

/** @param {any} payload */
function assigned({ assignee_id, claim_lease_id, expires_at, reason }) {
  return {
    ...NO_CLAIM,
    assignee_id,
    claim_lease_id,
    assignment_expires_at: expires_at,
    ...(reason === "result" ? { has_result: true } : {}),
    ...(reason === "failed" ? { dead: true, exhausted: true } : {}),
    ...(ATTEMPTS.has(reason) ? { exhausted: false } : {}),
  };
}

/**
 * @param {string} reason
 * @param {string} thread
 * @param {World} world
 */
const mayBeSpent = (reason, thread, world) => ENDS.has(reason) && !isUnlimited(thread, world);

const LIMITS = ["max_tokens", "max_usd_micros", "max_turns", "max_wall_secs", "max_attempts"];

/** @param {any} payload */
const limits = (payload) => Object.fromEntries(LIMITS.map((limit) => [limit, payload[limit]]));

/**
 * Returns whether a thread is known to have no limit, in which case its budget is never used up.
 * @param {string} thread
 * @param {World} world
 */
function isUnlimited(thread, { kinds }) {
  const budget = kinds.budget?.get(thread);
  return budget !== undefined && LIMITS.every((limit) => budget[limit] === null);
}

/**
 * Updates the end of this claim in the obstacles of other threads.
 * @param {string} thread
 * @param {string} until
 * @returns {Effect}
 */
function renewedInTheWay(thread, until) {
  const isOfIt = (/** @type {Conflict} */ obstacle) => obstacle.thread_id === thread;
  return {
    each: "deferred",
    where: (known) => known.obstacles.some(isOfIt),
    patch: ({ obstacles }) => ({
      obstacles: obstacles.map((/** @type {Conflict} */ obstacle) =>
        isOfIt(obstacle) ? { ...obstacle, lease_expires_at: until } : obstacle,
      ),
    }),
  };
}

/**
 * @param {string} reason
 * @param {any} payload
 * @param {Place} place
 * @param {World} world
 * @returns {Effect}
 */
function alarm(reason, { claim_lease_id, member_id, owner_id }, { thread, at, lsn }, { kinds }) {
  const owner = owner_id ?? kinds.thread?.get(thread)?.owner_id ?? null;
  return set("alarm", thread, { reason, claim_lease_id, member_id, owner_id: owner, at, lsn });
}

/**
 * @param {any} payload
 * @param {Place} place
 * @param {World} world
 */
function letter({ claim_lease_id, member_id, exceeded }, { thread, channel, at, lsn }, { kinds }) {
  const title = kinds.thread?.get(thread)?.title ?? null;
  return {
    thread_id: thread,
    channel_id: channel,
    title,
    exceeded,
    holder: member_id,
    claim_lease_id,
    failed_at: at,
    settled_at: null,
    lsn,
  };
}

/**
 * @param {string} repo
 * @param {string | null} reason
 * @param {Place} place
 */
function pause(repo, reason, { workspace, by, at, lsn }) {
  return { workspace_id: workspace, repo, reason, paused_by: by, paused_at: at, lsn };
}
