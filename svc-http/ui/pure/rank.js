// Ranks the items that need the user.
//
// Guarantees: approvals are first, then expired or failed claims, reviews and critical findings,
// unacknowledged claims, budgets that run out, and mentions; within a rank, older items are first.

import { awaitsMe, isDone, isLapsed, isMine, isUnacknowledged } from "./lanes.js";
import { ms } from "./clock.js";

/** @typedef {import("./types.js").Thread} Thread */
/** @typedef {import("./types.js").Gate} Gate */
/** @typedef {import("./types.js").Me} Me */
/** @typedef {import("./types.js").Alarm} Alarm */
/** @typedef {"gate" | "lapsed" | "dead" | "review" | "finding" | "unacknowledged" | "budget" | "mention"} NeedKind */
/**
 * @typedef {object} Need
 * @property {string} key stable key of the need
 * @property {NeedKind} kind
 * @property {string} id the id of the entity
 * @property {string | null} thread_id
 * @property {number | null} since in ms; null if unknown
 * @property {string} op operation that settles the need
 * @property {{reason?: string, message_id?: string | null, share?: number, review_id?: string}} more
 */
/**
 * @typedef {object} Known all known data to rank
 * @property {Me} me
 * @property {number} now
 * @property {Map<string, Thread>} threads
 * @property {Iterable<Gate>} gates
 * @property {Iterable<any>} letters
 * @property {Iterable<Alarm>} alarms
 * @property {Iterable<string>} awaited ids of threads on which the user's review is requested
 * @property {(kind: NeedKind, id: string) => number | null} caused returns when the need arose, if events
 * contained it
 * @property {Iterable<any>} reviews
 * @property {Iterable<any>} budgets
 * @property {Iterable<any>} inbox
 */

/** @type {Record<NeedKind, number>} */
const RANK = { gate: 0, lapsed: 1, dead: 1, review: 2, finding: 2, unacknowledged: 3, budget: 4, mention: 5 };

/** Share of a limit from which a budget counts as almost used up. */
export const BUDGET_LOW = 0.8;

/** Inbox reasons that are shown as mentions. Needs of other kinds cover the other reasons. */
const WORDS_TO_ME = new Set(["mention", "reply", "dm", "group_mention", "refuted", "assigned", "owner", "result"]);

/**
 * @param {Known} known
 * @returns {Need[]}
 */
export function rankNow(known) {
  const needs = [
    ...gates(known),
    ...lapsedAndLate(known),
    ...dead(known),
    ...reviews(known),
    ...findings(known),
    ...budgets(known),
    ...mentions(known),
  ];
  return needs.sort((one, other) => RANK[one.kind] - RANK[other.kind] || older(one, other) || compare(one.key, other.key));
}

/** Compares two needs by age; a need of unknown age is last. @param {Need} one @param {Need} other */
function older({ since: one }, { since: other }) {
  if (one === null || other === null) return Number(one === null) - Number(other === null);
  return one - other;
}

/** @param {string} one @param {string} other */
const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0);

/**
 * @param {NeedKind} kind
 * @param {string} id
 * @param {string | null} thread_id
 * @param {number | null} since
 * @param {string} op
 * @param {Need["more"]} [more]
 * @returns {Need}
 */
const need = (kind, id, thread_id, since, op, more = {}) => ({
  key: `${kind}/${id}`,
  kind,
  id,
  thread_id,
  since,
  op,
  more,
});

/** @param {Known} known */
function gates({ gates: all, me, now }) {
  return [...all]
    .filter((gate) => awaitsMe(gate, me) && (ms(gate.expires_at) ?? Infinity) > now)
    .map((gate) => need("gate", gate.id, gate.thread_id, ms(gate.requested_at), "approval_decide"));
}

/** @param {Known} known */
function lapsedAndLate({ alarms, threads, me }) {
  const found = [];
  for (const alarm of alarms) {
    const thread = threads.get(alarm.id);
    if (!thread || !(isMine(thread, me) || alarm.member_id === me.member_id)) continue;
    const since = ms(alarm.at);
    if (isLapsed(thread, alarm)) found.push(need("lapsed", thread.id, thread.id, since, "claim_thread"));
    if (!isUnacknowledged(thread, alarm)) continue;
    const op = thread.assignee_id === me.member_id ? "acknowledge_claim" : "post_message";
    found.push(need("unacknowledged", thread.id, thread.id, since, op));
  }
  return found;
}

/** @param {Known} known */
function dead({ letters, threads, me }) {
  return [...letters]
    .filter(({ settled_at, thread_id, holder }) => {
      const thread = threads.get(thread_id);
      return settled_at === null && (!thread || holder === me.member_id || isMine(thread, me));
    })
    .map((letter) => need("dead", letter.id, letter.thread_id, ms(letter.failed_at), "requeue_dead_letter"));
}

/** @param {Known} known */
function reviews({ awaited, threads, caused }) {
  const found = [];
  for (const id of awaited) {
    const thread = threads.get(id);
    if (thread && !isDone(thread)) found.push(need("review", id, id, caused("review", id), "submit_review"));
  }
  return found;
}

/** @param {Known} known */
function findings({ reviews: all, threads, me }) {
  const found = [];
  for (const review of all) {
    const thread = threads.get(review.thread_id);
    if (!thread || isDone(thread) || !isMine(thread, me)) continue;
    for (const { id, severity, resolution } of review.findings) {
      if (severity !== "critical" || resolution !== null) continue;
      found.push(need("finding", id, thread.id, ms(review.submitted_at), "resolve_finding", { review_id: review.id }));
    }
  }
  return found;
}

/** @param {Known} known */
function budgets({ budgets: all, threads, me, caused }) {
  const found = [];
  for (const budget of all) {
    const thread = threads.get(budget.thread_id);
    const share = budgetShare(budget);
    if (!thread || isDone(thread) || thread.dead || !isMine(thread, me) || share === null || share < BUDGET_LOW) continue;
    found.push(need("budget", thread.id, thread.id, caused("budget", thread.id), "update_thread_budget", { share }));
  }
  return found;
}

/** @param {Known} known */
function mentions({ inbox }) {
  return [...inbox]
    .filter(({ read, reason }) => !read && WORDS_TO_ME.has(reason))
    .map(({ lsn, thread_id, message_id, at, reason }) =>
      need("mention", String(lsn), thread_id, ms(at), "mark_inbox_read", { reason, message_id }),
    );
}

const LIMITS = ["tokens", "usd_micros", "turns", "wall_secs", "attempts"];

/**
 * @param {any} budget
 * @returns {number | null} how much of the most used limit is used, as a share; null without limits
 */
export function budgetShare(budget) {
  let most = null;
  for (const name of LIMITS) {
    const limit = budget[`max_${name}`];
    if (limit === null || limit === undefined) continue;
    const share = limit === 0 ? 1 : (budget.used?.[name] ?? 0) / limit;
    most = Math.max(most ?? 0, share);
  }
  return most;
}
