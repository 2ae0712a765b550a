// Actions on claims: claiming a task, reporting progress, submitting a result, releasing the claim.
//
// Not here: why a task cannot be claimed (pure/why.js).

import { isHandedIn, isLive } from "../pure/lanes.js";
import { leaves } from "./rows.js";

/** @typedef {import("../actions.js").Action} Action */
/** @typedef {import("../actions.js").World} World */

/** @param {any} thread @param {World} world */
const isMine = (thread, world) => isLive(thread) && thread.assignee_id === world.me.member_id;
/** @param {any} thread @param {World} world */
const isOfAnother = (thread, world) => isLive(thread) && thread.assignee_id !== world.me.member_id;
/** Defaults of actions on another member's claim, which need the capability to archive a channel. */
const ofAnother = { on: /** @type {const} */ ("thread"), when: isOfAnother, rightOf: () => "archive_channel" };
/**
 * Names the lease, so that the action cannot affect a later claim by mistake.
 *
 * @param {any} thread
 */
const withLease = (thread) => ({ thread_id: thread.id, claim_lease_id: thread.claim_lease_id });

/** @type {Action[]} */
export const claims = [
  {
    id: "claim_thread",
    op: "claim_thread",
    on: "thread",
    key: "i",
    isMain: true,
    isFirst: true,
    when: (thread) => thread.state === "open" && !isLive(thread) && !isHandedIn(thread),
    fill: (thread) => ({ thread_id: thread.id, acknowledge: true }),
    leaves: leaves("ThreadAssignmentChanged", ({ reason }) => reason === "claimed"),
  },
  {
    id: "acknowledge_claim",
    op: "acknowledge_claim",
    on: "thread",
    isMain: true,
    isFirst: true,
    when: (thread, world) => isMine(thread, world) && !thread.acknowledged_at,
    fill: withLease,
    leaves: leaves("ClaimAcknowledged"),
  },
  {
    id: "renew_claim",
    op: "renew_claim",
    on: "thread",
    isMain: true,
    when: isMine,
    fill: withLease,
    leaves: leaves("ClaimRenewed"),
  },
  {
    id: "checkpoint_claim",
    op: "renew_claim",
    on: "thread",
    when: isMine,
    fill: withLease,
    fields: ["checkpoint", "lease_secs"],
    leaves: leaves("ClaimCheckpointed"),
  },
  {
    id: "hand_off_claim",
    op: "hand_off_claim",
    on: "thread",
    when: isMine,
    fill: withLease,
    fields: ["to_member_id", "checkpoint"],
    leaves: leaves("ThreadAssignmentChanged", ({ reason }) => reason === "handed_off"),
  },
  {
    id: "release_claim",
    op: "release_claim",
    on: "thread",
    confirm: "press",
    isMain: true,
    when: isMine,
    fill: withLease,
    leaves: leaves("ThreadAssignmentChanged", ({ reason }) => reason === "released"),
  },
  {
    ...ofAnother,
    id: "take_and_release",
    op: "release_claim",
    confirm: "press",
    fill: withLease,
    leaves: leaves("ThreadAssignmentChanged", ({ reason }) => reason === "released"),
  },
  {
    ...ofAnother,
    id: "take_and_hand_off",
    op: "hand_off_claim",
    fill: withLease,
    fields: ["to_member_id"],
    leaves: leaves("ThreadAssignmentChanged", ({ reason }) => reason === "handed_off"),
  },
  {
    id: "set_thread_result",
    op: "set_thread_result",
    on: "thread",
    isMain: true,
    when: isMine,
    fill: withLease,
    fields: ["result", "result_kind", "action"],
    leaves: leaves("ThreadResultSet"),
  },
  {
    id: "report_usage",
    op: "report_usage",
    on: "thread",
    when: isMine,
    fill: (thread) => ({ ...withLease(thread), report_id: crypto.randomUUID?.() ?? String(Date.now()) }),
    fields: ["tokens", "turns", "usd_micros", "model"],
    leaves: leaves("UsageReported", (payload, input) => payload.report_id === input.report_id),
  },
];
