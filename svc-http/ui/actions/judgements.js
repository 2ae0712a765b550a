// Actions that judge a task: reviews, findings, approvals, the land gate, votes.
//
// Not here: whether a judgement counts, which the server decides.

import { leaves, setting } from "./rows.js";

/** @typedef {import("../actions.js").Action} Action */

/** @param {"accept" | "decline" | "cancel"} decision @returns {Action} */
const decide = (decision) => ({
  id: `approval_decide ${decision}`,
  op: "approval_decide",
  on: "gate",
  key: decision === "accept" ? "a" : undefined,
  isMain: true,
  isFirst: decision === "accept",
  confirm: "press",
  when: (gate, world) =>
    gate.state === "pending" && (decision === "cancel") === (gate.requested_by === world.me.member_id),
  fill: (gate) => ({ gate_id: gate.id, decision }),
  leaves: (event, input) =>
    event.kind === "ApprovalDecided" &&
    event.payload.gate_id === input.gate_id &&
    event.payload.decision === input.decision,
});

/** @param {"fixed" | "invalid" | "wont_fix"} resolution @returns {Action} */
const resolve = (resolution) => ({
  id: `resolve_finding ${resolution}`,
  op: "resolve_finding",
  on: "finding",
  isMain: true,
  when: (finding) => !finding.resolution,
  fill: (finding) => ({ thread_id: finding.thread_id, finding_id: finding.id, resolution }),
  leaves: leaves("FindingResolved", (payload, input) => payload.finding_id === input.finding_id),
});

/**
 * Returns an option of a vote with or without the user's own ballot.
 *
 * @param {{votes: number, voter_ids: string[]}} option
 * @param {boolean} isChosen
 * @param {string} me
 */
function balloted(option, isChosen, me) {
  const others = option.voter_ids.filter((id) => id !== me);
  const votes = option.votes - (option.voter_ids.length - others.length) + (isChosen ? 1 : 0);
  return { ...option, votes, voter_ids: isChosen ? [...others, me] : others };
}

/** @type {Action[]} */
export const judgements = [
  decide("accept"),
  decide("decline"),
  decide("cancel"),
  {
    // For a member who may not accept, the operation returns a link for a person who may.
    id: "approval_link",
    op: "approval_decide",
    on: "gate",
    when: () => false,
    fill: (gate) => ({ gate_id: gate.id, decision: "accept" }),
  },
  resolve("fixed"),
  resolve("invalid"),
  resolve("wont_fix"),
  {
    id: "resolve_relation",
    op: "resolve_relation",
    on: "relation",
    isMain: true,
    when: ({ kind, open = true }) => open && (kind ?? "refutes") === "refutes",
    fill: ({ id }) => ({ relation_id: id }),
    leaves: (event, input) =>
      event.kind === "RelationResolved" && event.payload.relation_id === input.relation_id,
  },
  {
    id: "close_vote",
    op: "close_vote",
    on: "vote",
    isMain: true,
    confirm: "press",
    when: (vote, world) => !vote.closed_at && vote.created_by === world.me.member_id,
    fill: ({ id }) => ({ vote_id: id }),
    leaves: (event, input) => event.kind === "VoteClosed" && event.payload.vote_id === input.vote_id,
  },
  {
    id: "cast_vote",
    op: "cast_vote",
    on: "vote",
    when: (vote) => !vote.closed_at,
    fill: ({ id }) => ({ vote_id: id }),
    optimistic: ({ id }, { options }, { me }) => [
      {
        kind: "vote",
        id,
        field: "options",
        value: (/** @type {any[]} */ base) =>
          base.map((one, at) => balloted(one, options.includes(at), me.member_id)),
      },
    ],
    leaves: (event, input) => event.kind === "BallotCast" && event.payload.vote_id === input.vote_id,
  },
  setting("submit_review", ["verdict", "body", "head_sha", "findings"], {
    now: () => ({}),
    leaves: leaves("ReviewSubmitted", (payload, input) => payload.verdict === input.verdict),
  }),
  setting("set_review_requirement", ["approvals"], {
    now: ({ id }, world) => ({ approvals: world.store.get("review_status", id)?.required ?? 0 }),
    leaves: leaves("ReviewRequirementSet"),
  }),
  setting("add_reviewer", ["member_id"], { now: () => ({}), leaves: leaves("ReviewerAdded") }),
  setting("request_approval", ["question", "needs_person", "blocks_close", "expires_in_secs"], {
    now: () => ({}),
    leaves: leaves("ApprovalRequested"),
  }),
  setting("require_land_gate", [], { leaves: leaves("LandGateRequired") }),
  setting("clear_land_gate", [], {
    confirm: "press",
    when: ({ id }, world) => Boolean(world.store.get("land_gate", id)?.required),
    leaves: leaves("LandGateCleared"),
  }),
  setting("set_land_gate", ["pointer", "head_sha", "verdict"], {
    now: () => ({}),
    leaves: leaves("LandGateSet"),
  }),
  setting("create_vote", ["question", "options", "multiple", "closes_at"], {
    now: () => ({}),
    leaves: leaves("VoteOpened"),
  }),
  setting("attach_memory_block", ["block_id"], { now: () => ({}), leaves: leaves("MemoryBlockAttached") }),
];
