// Actions on a task: its state and its settings.
//
// Not here: its claim (claims.js) and what judges it (judgements.js).

import { isDone } from "../pure/lanes.js";
import { following, leaves, ofThread, setting } from "./rows.js";

/** @typedef {import("../actions.js").Action} Action */
/** @typedef {import("../actions.js").World} World */

const LIMITS = ["max_tokens", "max_usd_micros", "max_turns", "max_wall_secs", "max_attempts"];

/**
 * @param {string} action
 * @param {(thread: any) => boolean} when
 * @param {Partial<Action>} [more]
 * @returns {Action}
 */
const transition = (action, when, more = {}) => ({
  id: `transition_thread ${action}`,
  op: "transition_thread",
  on: "thread",
  when,
  fill: (thread) => ({ thread_id: thread.id, action }),
  leaves: leaves("ThreadStateChanged", (payload) => payload.action === action),
  ...more,
});

/** @type {Action[]} */
export const states = [
  transition("start_review", ({ state }) => state === "open"),
  transition("return_to_open", ({ state }) => state === "in_review"),
  transition("close", (thread) => !isDone(thread), { isMain: true, confirm: "press" }),
  transition("reopen", ({ state }) => state === "closed", { isMain: true }),
  transition("archive", ({ state }) => state === "closed", { confirm: "press" }),
  {
    id: "cancel_thread",
    op: "cancel_thread",
    on: "thread",
    confirm: "form",
    when: (thread) => !isDone(thread),
    fill: ofThread,
    fields: ["reason"],
    leaves: leaves("ThreadCancelled"),
  },
  {
    id: "requeue_dead_letter",
    op: "requeue_dead_letter",
    on: "thread",
    isMain: true,
    when: (thread, world) => thread.dead && letterOf(thread, world) !== undefined,
    fill: (thread, world) => ({ dead_letter_id: letterOf(thread, world)?.id }),
    leaves: leaves("DeadLetterRequeued", (payload, input) => payload.dead_letter_id === input.dead_letter_id),
  },
];

/** @param {any} thread @param {World} world */
function letterOf(thread, world) {
  return world.store.all("dead_letter").find(({ thread_id }) => thread_id === thread.id);
}

/** @param {string} kind @param {string} field @param {string} [of] */
const overlaid =
  (kind, field, of = field) =>
  (/** @type {any} */ { id }, /** @type {any} */ input) => [{ kind, id, field, value: input[of] ?? null }];

/** @type {Action[]} */
export const settings = [
  setting("set_thread_priority", ["priority"], {
    optimistic: overlaid("thread", "priority"),
    leaves: leaves("ThreadPriorityChanged"),
  }),
  setting("set_thread_owner", ["owner_id"], {
    optimistic: overlaid("thread", "owner_id"),
    leaves: leaves("ThreadOwnerChanged"),
  }),
  setting("update_thread", ["title"], { leaves: leaves("ThreadUpdated") }),
  setting("set_required_skills", ["required_skills"], { leaves: leaves("ThreadSkillsChanged") }),
  setting("set_thread_footprint", ["repo", "mode", "items"], {
    now: ({ footprint }) => footprint ?? {},
    leaves: leaves("ThreadFootprintChanged"),
  }),
  setting("update_thread_budget", LIMITS, {
    now: ({ id }, world) => world.store.get("budget", id) ?? {},
    leaves: leaves("ThreadBudgetSet"),
  }),
  setting("add_thread_dependency", ["depends_on_id"], {
    now: () => ({}),
    leaves: leaves("ThreadDependencyAdded"),
  }),
  setting("create_child_thread", ["title", "body", "priority"], {
    now: () => ({}),
    leaves: (event, input) => event.kind === "ThreadCreated" && event.payload.parent_id === input.thread_id,
  }),
  following("follow", "thread", true),
  following("unfollow", "thread", false),
];

/** Actions that remove something from a task. @type {Action[]} */
export const partings = [
  {
    id: "remove_thread_dependency",
    op: "remove_thread_dependency",
    on: "dependency",
    isMain: true,
    when: ({ finished }) => !finished,
    fill: ({ thread_id, depends_on_id }) => ({ thread_id, depends_on_id }),
    leaves: leaves(
      "ThreadDependencyRemoved",
      (payload, input) => payload.depends_on_id === input.depends_on_id,
    ),
  },
  {
    id: "remove_reviewer",
    op: "remove_reviewer",
    on: "reviewer",
    isMain: true,
    when: () => true,
    fill: ({ thread_id, member_id }) => ({ thread_id, member_id }),
    leaves: leaves("ReviewerRemoved", (payload, input) => payload.member_id === input.member_id),
  },
  {
    id: "detach_memory_block",
    op: "detach_memory_block",
    on: "attachment",
    isMain: true,
    when: () => true,
    fill: ({ thread_id, block_id }) => ({ thread_id, block_id }),
    leaves: leaves("MemoryBlockDetached", (payload, input) => payload.block_id === input.block_id),
  },
];
