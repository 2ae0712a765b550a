// Why nobody works on a thread, as facts: what blocks it, and what would free it. Sentences of them are in strings/why.js.
//
// What the API says of obstacles is taken as it is: a claim in a channel that one cannot see has a holder and an end, and
// no thread. What would help is always something that somebody can do, or a time.

import { ms } from "./clock.js";
import { isDone, isLive } from "./lanes.js";

/** @typedef {import("./types.js").Thread} Thread */
/** @typedef {import("./types.js").Conflict} Conflict */
/** @typedef {import("./types.js").Reason} Reason */
/**
 * @typedef {object} Why
 * @property {WhyCode} code
 * @property {UnblockCode} unblock what would free it
 * @property {string} [item] the path, branch, lane or slot that it is about
 * @property {string | null} [holder]
 * @property {number | null} [until] in ms
 * @property {string} [thread] the thread whose claim is in the way
 * @property {boolean} [hidden] whether that is where one cannot see it
 * @property {string[]} [threads] what it waits for
 * @property {number} [count] how many it waits for
 * @property {string[]} [skills]
 * @property {string[]} [exceeded] limits of which nothing is left
 * @property {string} [repo]
 * @property {string} [detail] what the server said
 */
/**
 * @typedef {"overlap" | "slot-full" | "repo-paused" | "dependencies" | "skills" | "missing-skills" | "budget" | "dead-letter"
 *   | "claimed" | "handed-in" | "done" | "archived" | "dm" | "frozen" | "capability" | "refused"} WhyCode
 */
/**
 * @typedef {"ends" | "slot" | "resume" | "finish" | "skill" | "raise" | "requeue" | "hand-off" | "close" | "reopen"
 *   | "unarchive" | "unfreeze" | "token" | "nothing"} UnblockCode
 */

/** The most telling first: what nobody frees by waiting stands before what ends by itself. @type {WhyCode[]} */
const ORDER = ["dead-letter", "budget", "archived", "dependencies", "skills", "repo-paused", "slot-full", "overlap", "handed-in"];

/**
 * Why nobody works on a thread; nothing if somebody does, or if anybody can take it.
 * @param {Thread} thread
 * @param {{obstacles?: Conflict[], waits?: {thread_id: string, finished: boolean}[], archived?: boolean, exceeded?: string[]}} known
 * `waits`: what it waits for; `archived`: whether its channel is; `exceeded`: limits of its budget of which nothing is left
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
 * Whether a thread of which nothing is known to be in the way can be claimed.
 * @param {Thread} thread
 * @param {boolean} isWhole whether all threads are known in whose way something is
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
 * An obstacle as lists of deferred threads and refusals name them.
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
 * In order, each fact once: lists and the thread itself may both say that it waits.
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

/** @typedef {{code?: string, detail?: string, members?: Record<string, any>} & Record<string, any>} Refusal a problem, with its members */

/**
 * Why a claim was refused, or would be.
 * @param {Refusal} told a problem of claiming, as it was answered or thrown; `type` may stand for its code
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

/** What meets a condition of a close. @type {Record<string, string>} */
const MEETS = {
  children: "get_thread",
  approvals: "add_reviewer",
  findings: "resolve_finding",
  "approval-gate": "approval_decide",
  "land-gate": "set_land_gate",
  refutes: "resolve_relation",
};

/**
 * What a close still needs, with the operation that meets it.
 * @param {Reason[]} reasons
 * @returns {(Reason & {op: string | null})[]}
 */
export function closeNeeds(reasons) {
  return reasons.map((reason) => ({ ...reason, op: MEETS[reason.condition] ?? null }));
}

/** What is not there any more, and what is not as it was. */
const OVER = new Set([404, 409]);

/**
 * Whether a refusal may come of the own write itself: nobody else is named as who was quicker.
 * @param {{status: number, isUnknown: boolean, members: Record<string, any>}} problem
 * @param {string} memberId
 */
export function mayBeDone({ status, isUnknown, members }, memberId) {
  const named = [members.holder, members.updated_by].filter(Boolean);
  return OVER.has(status) && !isUnknown && named.every((id) => id === memberId);
}
