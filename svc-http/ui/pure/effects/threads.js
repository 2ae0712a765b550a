// Effects of events about threads on the store: fields, states and dependencies.

import { threadAddress } from "../address.js";
import { lists, patch, set, stale, staleEach } from "./effect.js";

/** @typedef {import('./effect.js').Case} Case */
/** @typedef {import('./effect.js').Effect} Effect */
/** @typedef {import('../types.js').Entity} Entity */
/** @typedef {import('../merge.js').World} World */

/** @type {Record<string, Case>} */
export const THREADS = {
  ThreadCreated: (payload, place) => [
    { on: "thread", id: place.thread, make: created(payload, place), stale: payload.depends_on.length > 0 },
    { on: "dependencies", id: place.thread, make: { items: [] }, stale: payload.depends_on.length > 0 },
    ...(payload.parent_id ? [stale("context", payload.parent_id)] : []),
    ...lists("deferred", "occupancy"),
  ],
  ThreadUpdated: ({ title }, { thread }) => [
    patch("thread", thread, { title }),
    { each: "dead_letter", where: (letter) => letter.thread_id === thread, patch: { title } },
    ...inDependencies(thread, { title }),
  ],
  ThreadPriorityChanged: ({ to }, { thread }) => [
    patch("thread", thread, { priority: to }),
    { each: "deferred", where: (known) => known.id === thread, patch: { priority: to } },
  ],
  ThreadOwnerChanged: ({ to }, { thread }, { me }) => [
    patch("thread", thread, { owner_id: to }),
    stale("review_status", thread),
    stale("land_gate", thread),
    ...(to === me.member_id ? lists("inbox") : []),
  ],
  ThreadSkillsChanged: ({ required_skills }, { thread }) => [
    patch("thread", thread, { required_skills }),
    ...lists("deferred", "occupancy"),
  ],
  ThreadFootprintChanged: ({ footprint }, { thread }) => [
    patch("thread", thread, { footprint }),
    staleEach("context"),
    ...lists("deferred", "occupancy", "slots"),
  ],
  ThreadStateChanged: stateChanged,
  ThreadCancelled: (_, { thread, at }) => [patch("thread", thread, { cancelled: true, cancelled_at: at })],
  ThreadReady: (_, { thread }) => [patch("thread", thread, { blocked: 0 }), ...lists("deferred", "occupancy")],
  ThreadDependencyAdded: (_, { thread }) => [
    stale("thread", thread),
    stale("dependencies", thread),
    ...lists("deferred", "occupancy"),
  ],
  ThreadDependencyRemoved: ({ depends_on_id }, { thread }) => [
    stale("thread", thread),
    patch("dependencies", thread, ({ items }) => ({
      items: items.filter((/** @type {any} */ item) => item.thread_id !== depends_on_id),
    })),
    ...lists("deferred", "occupancy"),
  ],
  ThreadSpawnDenied: () => [],
  ThreadNotice: () => [],
};

/**
 * @param {any} payload
 * @param {import('./effect.js').Place} place
 * @returns {import('../types.js').Fields}
 */
function created(payload, place) {
  const { workspace, channel, at, lsn } = place;
  return {
    uri: threadAddress(place),
    workspace_id: workspace,
    channel_id: channel,
    parent_id: payload.parent_id,
    title: payload.title,
    state: "open",
    priority: payload.priority,
    required_skills: payload.required_skills,
    tools: payload.tools,
    footprint: payload.footprint,
    blocked: 0,
    has_result: false,
    exhausted: false,
    dead: false,
    owner_id: payload.created_by,
    assignee_id: null,
    claim_lease_id: null,
    assignment_expires_at: null,
    acknowledged_at: null,
    cancelled: false,
    cancelled_at: null,
    created_by: payload.created_by,
    created_at: at,
    lsn,
  };
}

/** @param {string} state */
const isFinished = (state) => state === "closed" || state === "archived";

/** @param {any} payload Payload of a `ThreadStateChanged` event. */
export const finishes = ({ from, to }) => isFinished(to) && !isFinished(from);

/** @type {Case} */
function stateChanged({ from, to, action }, { thread, at, lsn }, world) {
  const opens = to === "open";
  const closes = to === "closed";
  const fields = {
    state: to,
    ...(opens ? { has_result: false, cancelled: false, cancelled_at: null } : {}),
    ...(action === "cancel" ? { cancelled: true, cancelled_at: at } : {}),
    ...(closes ? { dead: false } : {}),
  };
  const parent = world.kinds.thread?.get(thread)?.parent_id;
  return [
    patch("thread", thread, fields),
    ...(finishes({ from, to }) ? [set("closing", thread, { lsn })] : []),
    stale("result", thread),
    stale("review_status", thread),
    stale("land_gate", thread),
    ...(closes ? settled(thread, at) : []),
    ...(parent ? [stale("context", parent)] : []),
    ...inDependencies(thread, { state: to, finished: isFinished(to) }),
    ...(isFinished(from) === isFinished(to) ? [] : waiting(thread, world, isFinished(to))),
    ...lists("deferred", "occupancy", "awaited"),
  ];
}

/**
 * @param {string} thread
 * @param {string} at
 * @returns {Effect[]}
 */
function settled(thread, at) {
  const isOpen = (/** @type {Entity} */ letter) => letter.thread_id === thread && letter.settled_at === null;
  return [
    { each: "dead_letter", where: isOpen, patch: { settled_at: at } },
    { on: "alarm", id: thread, gone: true },
  ];
}

/**
 * Updates this thread's fields in the dependencies of other threads.
 * @param {string} thread
 * @param {import('../types.js').Fields} fields
 * @returns {Effect[]}
 */
function inDependencies(thread, fields) {
  const has = (/** @type {Entity} */ { items }) => items.some((/** @type {any} */ item) => item.thread_id === thread);
  const changed = (/** @type {Entity} */ { items }) => ({
    items: items.map((/** @type {any} */ item) => (item.thread_id === thread ? { ...item, ...fields } : item)),
  });
  return [{ each: "dependencies", where: has, patch: changed }];
}

/**
 * Marks as stale the threads that may wait for this one, because their number of blockers changes.
 *
 * The dependencies of a thread are not always known.
 *
 * @param {string} thread
 * @param {World} world
 * @param {boolean} finished
 * @returns {Effect[]}
 */
function waiting(thread, world, finished) {
  const mayWait = (/** @type {Entity} */ other) => {
    if (other.id === thread || (finished && other.blocked === 0 && !other.stale)) return false;
    const known = world.kinds.dependencies?.get(other.id);
    if (!known || known.stale) return true;
    // A dependency in a channel that the user may not see is counted but not listed.
    const listed = known.items.filter((/** @type {any} */ item) => !item.finished).length;
    return known.items.some((/** @type {any} */ item) => item.thread_id === thread) || other.blocked > listed;
  };
  return [staleEach("thread", (other) => !isFinished(other.state) && mayWait(other))];
}
