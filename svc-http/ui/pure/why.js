// Reasons why a thread is not being worked on, as facts: what blocks it, and what would free it.
//
// Guarantees: obstacles are those of the API: a claim in a channel that the user cannot see has a holder and
// an end, but no thread. Each remedy is an action of a member or a time. Not here: sentences
// (strings/why.js).

import { ms } from "./clock.js";
import { isDone, isLive } from "./lanes.js";

/** @typedef {import("./types.js").Thread} Thread */
/** @typedef {import("./types.js").Conflict} Conflict */
/** @typedef {import("./types.js").Reason} Reason */
/**
 * @typedef {object} Why
 * @property {WhyCode} code
 * @property {UnblockCode} unblock remedy
 * @property {string} [item] path, branch, lane or slot that conflicts
 * @property {string | null} [holder]
 * @property {number | null} [until] in ms
 * @property {string} [thread] the thread whose claim conflicts
 * @property {boolean} [hidden] whether the user cannot see that thread
 * @property {string[]} [threads] ids of the threads that block it
 * @property {number} [count] number of threads that block it
 * @property {string[]} [skills]
 * @property {string[]} [exceeded] limits that are used up
 * @property {string} [repo]
 * @property {string} [detail] detail of the server's error
 */
/**
 * @typedef {"overlap" | "slot-full" | "repo-paused" | "dependencies" | "skills" | "missing-skills" | "budget" | "dead-letter"
 *   | "claimed" | "handed-in" | "done" | "archived" | "dm" | "frozen" | "capability" | "refused"} WhyCode
 */
/**
 * @typedef {"ends" | "slot" | "resume" | "finish" | "skill" | "raise" | "requeue" | "hand-off" | "close" | "reopen"
 *   | "unarchive" | "unfreeze" | "token" | "nothing"} UnblockCode
 */

/**
 * Codes, most important first: those that need an action come before those that end with time.
 *
 * @type {WhyCode[]}
 */
const ORDER = ["dead-letter", "budget", "archived", "dependencies", "skills", "repo-paused", "slot-full", "overlap", "handed-in"];

/**
 * Returns why a thread is not being worked on; nothing if it is, or if it can be claimed.
 * @param {Thread} thread
 * @param {{obstacles?: Conflict[], waits?: {thread_id: string, finished: boolean}[], archived?: boolean, exceeded?: string[]}} known
 * `waits`: its dependencies; `archived`: whether its channel is archived; `exceeded`: limits of its budget
 * that are used up
 * @returns {Why[]}
 */
export function whyOf(thread, { obstacles = [], waits = [], archived = false, exceeded = [] }) {
  if (isDone(thread) || isLive(thread) || thread.state === "in_review") return [];
  /** @type {Why[]} */
  const whys = [];
  if (thread.dead) whys.push({ code: "dead-letter", unblock: "requeue", exceeded });
  else if (thread.exhausted) whys.push({ code: "budget", unblock: "raise", exceeded });
  if (archived) whys.push({ code: "archived", unblock: "unarchive" });
  if (thread.blocked > 0) whys.push(dependencies(thread, waits));
  if (thread.has_result) whys.push({ code: "handed-in", unblock: "close" });
  for (const obstacle of obstacles) whys.push(...whyOfConflict(obstacle, thread));
  return inOrder(whys);
}

/**
 * Returns whether a thread without known obstacles can certainly be claimed.
 * @param {Thread} thread
 * @param {boolean} isWhole whether all threads with obstacles are known
 */
export function isFreeForSure({ footprint, required_skills }, isWhole) {
  return isWhole || (!footprint && required_skills.length === 0);
}

/**
 * @param {Thread} thread
 * @param {{thread_id: string, finished: boolean}[]} waits
 * @returns {Why}
 */
function dependencies(thread, waits) {
  const threads = waits.filter(({ finished }) => !finished).map(({ thread_id }) => thread_id);
  return { code: "dependencies", unblock: "finish", threads, count: thread.blocked, hidden: threads.length < thread.blocked };
}

/**
 * Returns the reason for one obstacle, from a list of deferred threads or from an error.
 * @param {Conflict} conflict
 * @param {Partial<Thread>} thread
 * @returns {Why[]}
 */
function whyOfConflict({ reason, item, holder, lease_expires_at, thread_id }, thread) {
  const claim = { item: item?.value, holder, until: ms(lease_expires_at), thread: thread_id, hidden: !thread_id };
  switch (reason) {
    case "overlap":
      return [{ code: "overlap", unblock: "ends", ...claim }];
    case "slot-full":
      return [{ code: "slot-full", unblock: "slot", ...claim, hidden: false }];
    case "repo-paused":
      return [{ code: "repo-paused", unblock: "resume", repo: thread.footprint?.repo ?? undefined }];
    case "dependencies":
      return [{ code: "dependencies", unblock: "finish", threads: [], count: thread.blocked ?? 1, hidden: true }];
    case "skills":
      return [{ code: "skills", unblock: "skill", skills: thread.required_skills ?? [] }];
    case "budget":
      return [{ code: "budget", unblock: "raise", exceeded: [] }];
    case "dead-letter":
      return [{ code: "dead-letter", unblock: "requeue", exceeded: [] }];
    default:
      return [{ code: "refused", unblock: "nothing", detail: reason }];
  }
}

/**
 * Sorts reasons and removes duplicates, since the thread and a list may contain the same one.
 * @param {Why[]} whys
 * @returns {Why[]}
 */
function inOrder(whys) {
  const place = (/** @type {Why} */ { code }) => (ORDER.indexOf(code) + ORDER.length + 1) % (ORDER.length + 1);
  const seen = new Set();
  return whys
    .filter(({ code, item, thread, holder }) => {
      const key = [code, item, thread, holder].join("\n");
      return !seen.has(key) && seen.add(key);
    })
    .sort((one, other) => place(one) - place(other));
}

/**
 * @typedef {{code?: string, detail?: string, members?: Record<string, any>} & Record<string, any>} Refusal
 * error, with its members
 */

/**
 * Returns why a claim was rejected, or would be.
 * @param {Refusal} told error of a claim, as answered or thrown; its code may be in `type`
 * @returns {Why[]}
 */
export function whyRefused(told) {
  const refusal = { ...told.members, ...told };
  const code =
    refusal.code ??
    String(refusal.type ?? "")
      .split("/")
      .pop();
  switch (code) {
    case "footprint-conflict":
      return inOrder((refusal.conflicts ?? []).flatMap((/** @type {Conflict} */ conflict) => whyOfConflict(conflict, {})));
    case "budget-exhausted":
      return [{ code: "budget", unblock: "raise", exceeded: refusal.exceeded ?? [] }];
    case "member-frozen":
      return [{ code: "frozen", unblock: "unfreeze" }];
    case "missing-capability":
    case "forbidden":
      return [{ code: "capability", unblock: "token", detail: refusal.detail }];
    case "not-claimable":
      return [notClaimable(refusal)];
    default:
      return [{ code: "refused", unblock: "nothing", detail: refusal.detail }];
  }
}

/**
 * @param {Refusal} refusal
 * @returns {Why}
 */
function notClaimable({ reason, holder, lease_expires_at, state, blocked, missing_skills, detail }) {
  switch (reason) {
    case "claimed":
      return { code: "claimed", unblock: "ends", holder, until: ms(lease_expires_at) };
    case "state":
      return state === "in_review"
        ? { code: "handed-in", unblock: "close" }
        : { code: "done", unblock: "reopen" };
    case "has-result":
      return { code: "handed-in", unblock: "close" };
    case "dead-letter":
      return { code: "dead-letter", unblock: "requeue", exceeded: [] };
    case "blocked":
      return { code: "dependencies", unblock: "finish", threads: [], count: blocked ?? 1, hidden: true };
    case "missing-skills":
      return { code: "missing-skills", unblock: "skill", skills: missing_skills ?? [] };
    case "frozen":
      return { code: "frozen", unblock: "unfreeze" };
    case "channel-archived":
      return { code: "archived", unblock: "unarchive" };
    case "dm":
      return { code: "dm", unblock: "nothing" };
    default:
      return { code: "refused", unblock: "nothing", detail };
  }
}

/** Operation that meets each requirement of a close. @type {Record<string, string>} */
const MEETS = {
  children: "get_thread",
  approvals: "add_reviewer",
  findings: "resolve_finding",
  "approval-gate": "approval_decide",
  "land-gate": "set_land_gate",
  refutes: "resolve_relation",
};

/**
 * Returns the requirements of a close, each with the operation that meets it.
 * @param {Reason[]} reasons
 * @returns {(Reason & {op: string | null})[]}
 */
export function closeNeeds(reasons) {
  return reasons.map((reason) => ({ ...reason, op: MEETS[reason.condition] ?? null }));
}

/** Status codes of an entity that is gone or has changed. */
const OVER = new Set([404, 409]);

/**
 * Returns whether the user's own earlier write may have caused an error, because it names no other member.
 * @param {{status: number, isUnknown: boolean, members: Record<string, any>}} problem
 * @param {string} memberId
 */
export function mayBeDone({ status, isUnknown, members }, memberId) {
  const named = [members.holder, members.updated_by].filter(Boolean);
  return OVER.has(status) && !isUnknown && named.every((id) => id === memberId);
}
