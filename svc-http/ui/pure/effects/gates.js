// Effects of events about approvals, reviews, land gates, relations and votes on the store.
//
// Guarantees: an event creates a stale stub, and a read adds the text, which only the message contains.

import { lists, patch, stale, staleEach } from "./effect.js";

/** @typedef {import('./effect.js').Case} Case */
/** @typedef {import('./effect.js').Effect} Effect */
/** @typedef {import('./effect.js').Place} Place */

/** @type {Record<string, Case>} */
export const GATES = {
  ApprovalRequested: (payload, place) => [
    { on: "gate", id: payload.gate_id, make: gate(payload, place), stale: true },
    ...lists("approvals", "inbox"),
  ],
  ApprovalDecided: ({ gate_id, state, resolved_by }, { at, delegated }) => [
    { ...patch("gate", gate_id, { state, resolved_by, resolved_at: at }), stale: delegated },
    ...lists("approvals"),
  ],
  ReviewSubmitted: (payload, place) => [
    { on: "review", id: payload.review_id, make: review(payload, place), stale: true },
    stale("review_status", place.thread),
    ...lists("awaited"),
  ],
  FindingResolved: (payload, { thread, at, delegated }) => [
    { ...patch("review", payload.review_id, resolved(payload, at)), stale: delegated },
    stale("review_status", thread),
  ],
  ReviewRequirementSet: (_, { thread }) => [stale("review_status", thread)],
  ReviewerAdded: ({ member_id }, place, { me }) => [
    patch("reviewers", place.thread, ({ items }) => ({ items: withReviewer(items, member_id, place) })),
    stale("review_status", place.thread),
    ...(member_id === me.member_id ? lists("inbox", "awaited") : []),
  ],
  ReviewerRemoved: ({ member_id }, { thread }, { me }) => [
    patch("reviewers", thread, ({ items }) => ({ items: without(items, member_id) })),
    stale("review_status", thread),
    ...(member_id === me.member_id ? lists("awaited") : []),
  ],
  LandGateRequired: (_, { thread }) => [stale("land_gate", thread)],
  LandGateCleared: (_, { thread }) => [stale("land_gate", thread)],
  LandGateSet: (_, { thread }) => [stale("land_gate", thread)],
  MessageRelated: (payload, place) => [
    { on: "relation", id: payload.relation_id, make: relation(payload, place), stale: true },
    ...refutes(payload.kind),
  ],
  RelationRemoved: ({ relation_id, kind }) => [{ on: "relation", id: relation_id, gone: true }, ...refutes(kind)],
  RelationResolved: ({ relation_id, kind, member_id }, { at, delegated }) => [
    { ...patch("relation", relation_id, { open: false, resolved_at: at, resolved_by: member_id }), stale: delegated },
    ...refutes(kind),
  ],
  VoteOpened: (payload, place) => [{ on: "vote", id: payload.vote_id, make: vote(payload, place), stale: true }],
  // An option with many voters lists only some of them, so a ballot alone does not determine the count.
  BallotCast: ({ vote_id }) => [stale("vote", vote_id)],
  VoteClosed: ({ vote_id, closed_by, tally }, { at }) => [
    patch("vote", vote_id, (known) => ({
      closed_at: at,
      closed_by,
      options: known.options.map((/** @type {any} */ option, /** @type {number} */ at) => ({
        ...option,
        votes: tally[at] ?? option.votes,
      })),
    })),
  ],
};

/**
 * @param {any} payload
 * @param {Place} place
 */
function gate({ blocks_close, needs_person, expires_at, message_id }, { workspace, channel, thread, by, at, lsn }) {
  return {
    workspace_id: workspace,
    channel_id: channel,
    thread_id: thread,
    message_id,
    question: "",
    state: "pending",
    blocks_close,
    needs_person,
    expires_at,
    requested_by: by,
    requested_at: at,
    resolved_by: null,
    resolved_at: null,
    lsn,
  };
}

/**
 * @param {any} payload
 * @param {Place} place
 */
function review({ review_id, verdict, head_sha, message_id, findings }, { thread, by, at, lsn }) {
  const found = findings.map((/** @type {any} */ { id, severity }) => ({
    id,
    review_id,
    severity,
    body: "",
    path: null,
    line: null,
    resolution: null,
    resolved_by: null,
    resolved_at: null,
  }));
  return {
    thread_id: thread,
    member_id: by,
    message_id,
    verdict,
    head_sha,
    body: "",
    findings: found,
    submitted_at: at,
    lsn,
  };
}

/**
 * @param {any} payload
 * @param {string} at
 */
const resolved =
  ({ finding_id, resolution, resolved_by }, at) =>
  (/** @type {import("../types.js").Entity} */ { findings }) => ({
    findings: findings.map((/** @type {any} */ finding) =>
      finding.id === finding_id ? { ...finding, resolution, resolved_by, resolved_at: at } : finding,
    ),
  });

/**
 * @param {any[]} items
 * @param {string} member
 */
const without = (items, member) => items.filter(({ member_id }) => member_id !== member);

/**
 * @param {any[]} items
 * @param {string} member_id
 * @param {Place} place
 */
const withReviewer = (items, member_id, { thread, by, at, lsn }) => [
  ...without(items, member_id),
  { thread_id: thread, member_id, added_by: by, added_at: at, lsn },
];

/**
 * @param {any} payload
 * @param {Place} place
 */
function relation({ kind, from_id, to_id, member_id }, { thread, at, lsn }) {
  return {
    kind,
    from_id,
    from_thread_id: thread,
    to_id,
    to_thread_id: null,
    made_by: member_id,
    made_at: at,
    derived: false,
    open: kind === "refutes",
    target_withdrawn: false,
    resolved_by: null,
    resolved_at: null,
    lsn,
  };
}

/**
 * Marks all contexts as stale, since a refutation blocks the close of a thread that its event does not name.
 * @param {string} kind
 * @returns {Effect[]}
 */
const refutes = (kind) => (kind === "refutes" ? [staleEach("context")] : []);

/**
 * @param {any} payload
 * @param {Place} place
 */
function vote({ message_id, options, multiple, closes_at }, { thread, by, at, lsn }) {
  const unread = Array.from({ length: options }, () => ({ text: "", votes: 0, voter_ids: [] }));
  return {
    thread_id: thread,
    message_id,
    question: "",
    options: unread,
    multiple,
    created_by: by,
    closes_at,
    closed_at: null,
    closed_by: null,
    lsn,
  };
}
