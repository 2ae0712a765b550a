// Sentences for the events of the log, as parts, by kind of event.
//
// Guarantees: an unknown kind is shown by its name. Not here: the name of the actor, which precedes the parts
// unless they are a whole sentence.

import { duration, money } from "../pure/format.js";
import { happened } from "./happened.js";
import { limits } from "./lanes.js";
import { plural } from "./plural.js";

/** @typedef {import("../pure/types.js").Part} Part */
/** @typedef {Record<string, any>} Payload */

/** @param {string | null | undefined} id @returns {Part} */
const who = (id) => (id ? { member: id } : "the service");

/** @type {Record<string, (payload: Payload) => Part[]>} */
const ENDS = {
  claimed: ({ assignee_id, attribution }) =>
    attribution?.actor_id === assignee_id ? ["claimed the task"] : ["claimed the task for ", who(assignee_id)],
  handed_off: ({ assignee_id, previous_assignee_id, administrator_id }) =>
    administrator_id
      ? ["handed the claim of ", who(previous_assignee_id), " off to ", who(assignee_id)]
      : ["handed the task off to ", who(assignee_id)],
  released: ({ previous_assignee_id, administrator_id }) =>
    administrator_id ? ["released the claim of ", who(previous_assignee_id)] : ["released the task"],
  result: () => ["ended the claim with a result"],
  closed: () => ["ended the claim: the task was closed"],
  cancelled: () => ["ended the claim: the task was cancelled"],
  expired: ({ previous_assignee_id }) => ["the claim of ", who(previous_assignee_id), " lapsed"],
  failed: ({ previous_assignee_id }) => ["the claim of ", who(previous_assignee_id), " failed over its budget"],
  frozen: ({ previous_assignee_id }) => ["ended the claim of ", who(previous_assignee_id), ", who was frozen"],
  deactivated: ({ previous_assignee_id }) => ["ended the claim of ", who(previous_assignee_id), ", who was deactivated"],
};

/** @param {number} count @param {string} what */
const some = (count, what) => plural(count, { one: `# ${what}`, other: `# ${what}s` });

/** @type {Record<string, (value: number) => string>} */
const LIMITS = {
  max_tokens: (value) => some(value, "token"),
  max_usd_micros: money,
  max_turns: (value) => some(value, "turn"),
  max_wall_secs: (value) => duration(value * 1_000),
  max_attempts: (value) => some(value, "attempt"),
};

/** @param {Payload} budget @returns {Part[]} */
function budgetSet(budget) {
  const set = Object.entries(budget).filter(([name, value]) => name.startsWith("max_") && value !== null);
  return set.length
    ? [`set the budget: ${set.map(([name, value]) => LIMITS[name]?.(value) ?? `${name} ${value}`).join(", ")}`]
    : ["removed the budget"];
}

/** @param {Payload | null} footprint @returns {Part[]} */
function touches(footprint) {
  if (!footprint?.items?.length) return ["cleared the footprint"];
  const items = footprint.items.map((/** @type {any} */ { value }) => value).join(" ");
  return ["set the footprint to ", { code: footprint.repo ? `${footprint.repo}: ${items}` : items }];
}

/** @type {Record<string, string>} */
const ACTIONS = {
  start_review: "started the review",
  return_to_open: "returned the task to open",
  close: "closed the task",
  reopen: "reopened the task",
  archive: "archived the task",
  cancel: "cancelled the task",
};

/** @type {Record<string, string>} */
const VERDICTS = { approve: "approved", request_changes: "asked for changes", comment: "commented" };
/** @type {Record<string, string>} */
const DECISIONS = { accept: "accepted", decline: "declined", cancel: "withdrew" };

/** @type {Record<string, (payload: Payload) => Part[]>} */
const SAID = {
  ...happened,
  ThreadCreated: () => ["created the task"],
  ThreadUpdated: ({ title }) => ["renamed the task to ", { code: title }],
  ThreadStateChanged: ({ action, to }) => [ACTIONS[action] ?? `moved the task to ${to}`],
  ThreadCancelled: ({ reason }) => ["cancelled the task: ", { code: reason }],
  ThreadPriorityChanged: ({ from, to }) => [`changed the priority from ${from} to ${to}`],
  ThreadOwnerChanged: ({ to }) => ["made ", who(to), " responsible"],
  ThreadSkillsChanged: ({ required_skills }) =>
    required_skills.length ? ["required the skills ", { code: required_skills.join(", ") }] : ["required no skills"],
  ThreadFootprintChanged: ({ footprint }) => touches(footprint),
  ThreadDependencyAdded: ({ depends_on_id }) => ["made it wait for ", { thread: depends_on_id }],
  ThreadDependencyRemoved: ({ depends_on_id }) => ["made it wait no longer for ", { thread: depends_on_id }],
  ThreadReady: () => ["nothing that it waited for is unfinished"],
  ThreadBudgetSet: budgetSet,
  ThreadNotice: ({ notice }) => ["told: ", { code: notice }],
  ThreadSpawnDenied: ({ limit, allowed }) => [`was refused a child: ${limit} allows ${allowed}`],
  ThreadResultSet: ({ result_kind }) => (result_kind ? ["handed in a result, ", { code: result_kind }] : ["handed in a result"]),
  ThreadAssignmentChanged: (payload) => ENDS[payload.reason]?.(payload) ?? ["changed the claim"],
  ClaimAcknowledged: () => ["acknowledged the claim"],
  ClaimRenewed: ({ expires_at }) => ["renewed the claim until ", { time: Date.parse(expires_at) }],
  ClaimCheckpointed: () => ["left a checkpoint"],
  ClaimExpired: ({ member_id }) => ["the claim of ", who(member_id), " lapsed"],
  ClaimFailed: ({ member_id, exceeded }) => [
    ...["the claim of ", who(member_id), " failed over its budget: "],
    exceeded.map((/** @type {string} */ limit) => limits[limit] ?? limit).join(", "),
  ],
  ClaimUnacknowledged: ({ member_id }) => [who(member_id), " has not acknowledged the claim"],
  DeadLetterRequeued: () => ["requeued the task"],
  UsageReported: ({ tokens, turns }) => [`reported ${some(tokens ?? 0, "token")} and ${some(turns ?? 0, "turn")}`],
  ReviewRequirementSet: ({ approvals }) => [plural(approvals, { one: "required # approval", other: "required # approvals" })],
  ReviewerAdded: ({ member_id }) => ["asked ", who(member_id), " for a review"],
  ReviewerRemoved: ({ member_id }) => ["asked ", who(member_id), " for no review any more"],
  ReviewSubmitted: ({ verdict, findings }) => [
    VERDICTS[verdict] ?? verdict,
    findings.length ? plural(findings.length, { one: ", with # finding", other: ", with # findings" }) : "",
  ],
  FindingResolved: ({ resolution }) => [`resolved a finding as ${resolution.replace("_", " ")}`],
  ApprovalRequested: () => ["asked for an approval"],
  ApprovalDecided: ({ decision }) => [decision ? `${DECISIONS[decision]} the approval` : "the approval expired"],
  LandGateRequired: () => ["required the land gate"],
  LandGateCleared: () => ["required the land gate no more"],
  LandGateSet: ({ verdict, head_sha }) => [`set the land gate to ${verdict ?? "undecided"} at `, { code: head_sha }],
  MessageEdited: () => ["edited a message"],
  MessageTombstoned: () => ["withdrew a message"],
  MessagePurged: () => ["purged a message"],
  MessagePinned: () => ["pinned a message"],
  MessageUnpinned: () => ["unpinned a message"],
  MessageRelated: ({ kind }) => [`related two messages: ${kind.replace("_", " ")}`],
  RelationRemoved: ({ kind }) => [`removed a relation: ${kind.replace("_", " ")}`],
  RelationResolved: ({ kind }) => [`resolved a relation: ${kind.replace("_", " ")}`],
  MemoryBlockAttached: () => ["attached a memory block"],
  MemoryBlockDetached: () => ["detached a memory block"],
  VoteOpened: () => ["opened a vote"],
  VoteClosed: () => ["closed a vote"],
};

/**
 * @param {{kind: string, payload: Payload}} event
 * @returns {Part[]}
 */
export function eventParts({ kind, payload }) {
  try {
    return SAID[kind]?.(payload) ?? [{ code: kind }];
  } catch {
    // A log written by another version may lack data for the sentence.
    return [{ code: kind }];
  }
}

/** Events that time or another event causes; their parts are a whole sentence without an actor. */
const WHOLE = new Set(["ClaimExpired", "ClaimFailed", "ClaimUnacknowledged", "ThreadReady"]);
const WHOLE_ENDS = new Set(["expired", "failed"]);

/**
 * Returns the member to name before the parts of an event, or null if the parts are a whole sentence.
 *
 * @param {{kind: string, payload: Payload}} event
 * @returns {string | null}
 */
export function actorOf({ kind, payload }) {
  const isWhole =
    WHOLE.has(kind) ||
    (kind === "ThreadAssignmentChanged" && WHOLE_ENDS.has(payload.reason)) ||
    (kind === "ApprovalDecided" && !payload.decision);
  return isWhole ? null : (payload.attribution?.actor_id ?? null);
}

/**
 * Returns the whole sentence, with its actor if there is one.
 *
 * @param {{kind: string, payload: Payload}} event
 * @returns {Part[]}
 */
export function eventSentence(event) {
  const actor = actorOf(event);
  if (actor) return [{ member: actor }, " ", ...eventParts(event)];
  return event.kind in happened ? ["The service ", ...eventParts(event)] : eventParts(event);
}
