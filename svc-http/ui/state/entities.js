// Readings of each kind of entity and list: the operation, its input, and the entities in its answer.
//
// Guarantees: one row per kind, so a stale entity can be read again by its key alone. Not here: when to read
// (reads.js).

import { lastClaim } from "../pure/effects/claims.js";
import { finishes } from "../pure/effects/threads.js";
import { placeOf } from "../pure/merge.js";

/** @typedef {{kind: string, fields: any}} Put Fields to store as entities of a kind. */
/**
 * @typedef {{op: string, by: string, take?: (body: any, id: string) => Put[], hasPages?: boolean}} Reading
 */

/** @param {string} kind @returns {(body: any, id: string) => Put[]} */
const items = (kind) => (body, id) => [{ kind, fields: { id, items: body.items } }];

/** @type {Record<string, Reading>} */
export const READINGS = {
  thread: { op: "get_thread", by: "thread_id" },
  message: { op: "get_message", by: "message_id" },
  member: { op: "get_member", by: "member_id" },
  channel: { op: "get_channel", by: "channel_id" },
  workspace: { op: "get_workspace", by: "workspace_id" },
  gate: { op: "get_approval_gate", by: "gate_id" },
  vote: { op: "get_vote", by: "vote_id" },
  approval_link: { op: "open_approval_link", by: "link", take: openedLink },
  memory_block: { op: "get_memory_block", by: "block_id" },
  budget: { op: "get_thread_budget", by: "thread_id", take: own("budget") },
  result: { op: "get_thread_result", by: "thread_id", take: own("result") },
  review_status: { op: "get_review_status", by: "thread_id", take: own("review_status") },
  land_gate: { op: "get_land_gate", by: "thread_id", take: own("land_gate") },
  boot: { op: "get_channel_boot", by: "channel_id", take: own("boot") },
  context: { op: "get_thread_context", by: "thread_id", take: context },
  dependencies: { op: "list_thread_dependencies", by: "thread_id", take: items("dependencies") },
  reviewers: { op: "list_reviewers", by: "thread_id", take: items("reviewers") },
  related: {
    op: "list_message_relations",
    by: "message_id",
    take: list("related", "relation"),
    hasPages: true,
  },
  reactions: { op: "list_reactions", by: "message_id", take: items("reactions") },
  pins: { op: "list_pins", by: "channel_id", take: items("pins"), hasPages: true },
  channel_members: {
    op: "list_channel_members",
    by: "channel_id",
    take: items("channel_members"),
    hasPages: true,
  },
  member_tokens: { op: "list_tokens", by: "member_id", take: items("member_tokens"), hasPages: true },
  // The tasks that a member works on now, stored as entities of their own.
  held: { op: "list_workspace_threads", by: "assignee_id", take: list("held", "thread"), hasPages: true },
  // Lists of a thread that are read as a whole; their rows are stored as entities of their own.
  children: { op: "list_child_threads", by: "thread_id", take: list("children", "thread"), hasPages: true },
  reviews: { op: "list_reviews", by: "thread_id", take: list("reviews", "review"), hasPages: true },
  votes: { op: "list_votes", by: "thread_id", take: list("votes", "vote"), hasPages: true },
  gates: { op: "list_approval_gates", by: "thread_id", take: list("gates", "gate"), hasPages: true },
  usage: { op: "list_thread_usage", by: "thread_id", take: items("usage"), hasPages: true },
  memory: {
    op: "list_thread_memory_blocks",
    by: "thread_id",
    take: list("memory", "memory_block"),
    hasPages: true,
  },
};

/**
 * Kinds that cannot be read alone, and the key that is read instead.
 *
 * @type {Record<string, ((entity: any) => string) | undefined>}
 */
export const VIA = {
  review: ({ thread_id }) => `reviews/${thread_id}`,
  relation: ({ to_id }) => `related/${to_id}`,
};

/** Maximum reviews that the server lists for a member in the workspace context. */
const REVIEWS_TOLD = 20;

/**
 * @typedef {{op: string, input?: Record<string, unknown>, kind: string, id?: (row: any) => string, most:
 * number, rowsOf?: (body: any) => any[], told?: number, late?: string}} Listing `told`: with this many rows
 * the list may be incomplete, unreported by the server; `late`: kind of the recent events that list is read
 * from.
 */

/**
 * Lists of the workspace, by the names that events use to mark them as changed.
 *
 * @type {Record<string, Listing>}
 */
export const LISTINGS = {
  deferred: { op: "list_deferred_threads", input: { reason: "any" }, kind: "deferred", most: 1_000 },
  approvals: { op: "list_approval_gates", input: { state: "pending" }, kind: "gate", most: 500 },
  /** Threads that wait for a review by the session's member. */
  awaited: {
    op: "get_workspace_context",
    kind: "awaited",
    rowsOf: ({ reviews }) => reviews,
    id: ({ id }) => id,
    most: 500,
    told: REVIEWS_TOLD,
  },
  /** Times at which tasks were finished, which the tasks do not contain. */
  closings: {
    op: "list_events",
    late: "ThreadStateChanged",
    kind: "closing",
    rowsOf: ({ items }) => items.filter((/** @type {any} */ { payload }) => finishes(payload)).map(ofThread),
    most: 5_000,
  },
  /** Claims that were not acknowledged in time, including those whose holders acted later. */
  unacknowledged: {
    op: "list_events",
    late: "ClaimUnacknowledged",
    kind: "unacknowledged",
    rowsOf: ({ items }) => items.map(silentClaim),
    most: 5_000,
  },
  /** Event that began or ended a task's latest claim; the inbox reports a lapse only to the owner. */
  assigned: {
    op: "list_events",
    late: "ThreadAssignmentChanged",
    kind: "assigned",
    rowsOf: ({ items }) => items.map(assignment),
    most: 10_000,
  },
  dead_letters: { op: "list_dead_letters", kind: "dead_letter", most: 500 },
  follows: { op: "list_follows", kind: "follow", id: ({ target_id }) => target_id, most: 500 },
  glossary: { op: "list_glossary", kind: "term", id: ({ key }) => key, most: 500 },
  /** The inbox with items already read, for screens that show them. */
  inbox_all: {
    op: "list_inbox",
    input: { newest_first: true },
    kind: "inbox_all",
    id: (row) => String(row.lsn),
    most: 500,
  },
  dms: { op: "list_dms", kind: "dm", most: 500 },
  /** Nearly every screen names members and channels; those beyond the limit are read one by one. */
  members: { op: "list_members", kind: "member", most: 5_000 },
  channels: { op: "list_channels", kind: "channel", most: 5_000 },
  slots: { op: "list_slots", kind: "slot", most: 500 },
  pauses: { op: "list_repo_pauses", kind: "pause", most: 500 },
  memory: { op: "list_memory_blocks", kind: "memory_block", most: 1_000 },
  online: { op: "list_presence", kind: "online", id: (row) => row.member_id, most: 500 },
  /** Number of threads by state, shown until all threads are read. */
  counts: {
    op: "get_workspace_occupancy",
    kind: "counts",
    rowsOf: ({ threads }) => [threads],
    id: () => "workspace",
    most: 1,
  },
  /** Number of live claims by member. */
  occupancy: {
    op: "get_workspace_occupancy",
    kind: "busy",
    rowsOf: ({ busy }) => busy,
    id: (row) => row.member_id,
    most: 1_000,
  },
  /** Usage in the last 30 days by member and model. */
  usage: {
    op: "get_workspace_usage",
    kind: "usage_sum",
    id: ({ member_id, model }) => `${member_id} ${model ?? ""}`,
    most: 1_000,
  },
  skills: { op: "list_skills", kind: "skill", id: (row) => row.skill, most: 1_000 },
  frozen: { op: "list_frozen_members", kind: "freeze", id: (row) => row.member_id, most: 1_000 },
  grants: { op: "list_delegation_grants", kind: "grant", id: (row) => row.grant_id, most: 1_000 },
  apps: { op: "list_apps", kind: "app", most: 1_000 },
  installations: { op: "list_app_installations", kind: "installation", most: 1_000 },
  tickets: { op: "list_share_tickets", kind: "ticket", most: 1_000 },
  holds: { op: "list_legal_holds", kind: "hold", most: 1_000 },
  retention: { op: "get_retention_policy", kind: "retention", rowsOf: one, id: () => ONE, most: 1 },
  delegation: { op: "get_delegation_policy", kind: "delegation", rowsOf: one, id: () => ONE, most: 1 },
  spawn_budget: { op: "get_spawn_budget", kind: "spawn_budget", rowsOf: one, id: () => ONE, most: 1 },
  preferences: { op: "get_notification_preferences", kind: "preferences", rowsOf: one, id: () => ONE, most: 1 },
  inbox: {
    op: "list_inbox",
    input: { newest_first: true, unread: true },
    kind: "inbox",
    id: (row) => String(row.lsn),
    most: 500,
  },
};

/** Lists that contain all their entities, so an entity that is missing from the answer is removed. */
export const WHOLE = new Set([
  "awaited",
  "channels",
  "deferred",
  "follows",
  "dead_letters",
  "dms",
  "glossary",
  "inbox_all",
  "slots",
  "pauses",
  "memory",
  "online",
  "inbox",
  "occupancy",
  "usage",
  "skills",
  "frozen",
  "installations",
]);

/** Operations that return their list without pages. */
export const UNPAGED = {
  list_slots: true,
  list_thread_dependencies: true,
  list_reviewers: true,
  list_reactions: true,
  get_workspace_context: true,
  get_workspace_occupancy: true,
  get_workspace_usage: true,
  list_skills: true,
  get_retention_policy: true,
  get_delegation_policy: true,
  get_spawn_budget: true,
  get_notification_preferences: true,
};

/** Number of recent log positions that are searched. */
const BACK = 10_000;
/**
 * Returns the input of the operation that reads a list.
 *
 * @param {Listing} listing
 * @param {import("../net/ask.js").Ask} ask
 * @returns {Promise<Record<string, unknown>>}
 */
export async function inputOf({ input = {}, late }, ask) {
  if (!late) return input;
  const { head, floor } = (await ask("get_room")).body;
  return { kind: late, after_id: Math.max(head.lsn - BACK, floor - 1, 0) };
}

/** @param {import("../pure/types.js").LogEvent} event */
const ofThread = (event) => ({ id: placeOf(event).thread, lsn: event.lsn });

/** @param {import("../pure/types.js").LogEvent} event */
function silentClaim(event) {
  const { claim_lease_id, member_id, owner_id } = event.payload;
  return { ...ofThread(event), reason: "unacknowledged", claim_lease_id, member_id, owner_id, at: placeOf(event).at };
}

/** @param {import("../pure/types.js").LogEvent} event */
const assignment = (event) => ({ ...ofThread(event), ...lastClaim(event.payload, placeOf(event)) });

/** Id of an entity of which the workspace, or the session's member, has only one. */
export const ONE = "one";
/** @param {any} body @returns {any[]} */
function one(body) {
  return [body];
}

/** @param {string} kind @returns {(body: any, id: string) => Put[]} */
function own(kind) {
  return (body, id) => [{ kind, fields: { ...body, id } }];
}

/**
 * Returns the rows of a list as entities, and the list itself as their ids.
 *
 * @param {string} name
 * @param {string} kind
 * @returns {(body: any, id: string) => Put[]}
 */
function list(name, kind) {
  return (body, id) => [
    { kind, fields: body.items },
    { kind: name, fields: { id, ids: body.items.map((/** @type {any} */ row) => row.id) } },
  ];
}

/** @param {any} body @param {string} id @returns {Put[]} */
function openedLink({ gate, thread, asked_by, expires_at }, id) {
  const { id: gate_id, thread_id, channel_id } = gate;
  return [
    { kind: "gate", fields: gate },
    { kind: "thread", fields: thread },
    { kind: "approval_link", fields: { id, gate_id, thread_id, channel_id, asked_by, expires_at } },
  ];
}

/** @param {any} body @param {string} id @returns {Put[]} */
function context({ thread, messages: _messages, pins: _pins, ...rest }, id) {
  return [
    { kind: "thread", fields: thread },
    { kind: "context", fields: { ...rest, id } },
  ];
}
