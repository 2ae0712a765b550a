// The table of the panels of a task, in the order in which they are shown.

import { isLive } from "./pure/lanes.js";

/** @typedef {import("./world.js").World} World */
/** @typedef {import("./state/store.js").Changes} Changes */
/**
 * An open panel. `show` receives the current task; `wants` returns the keys of the data that the panel shows,
 * which are read and kept up to date.
 *
 * @typedef {{show: (thread: any, changes?: Changes) => void, close?: () => void}} OpenPanel
 */
/**
 * @typedef {{
 *   id: string,
 *   on: "thread",
 *   side: boolean,
 *   needs: string,
 *   when: (thread: any, world: World) => boolean,
 *   wants?: (thread: any) => string[],
 *   load: () => Promise<{open: (place: HTMLElement, world: World) => OpenPanel}>,
 * }} Panel `side`: beside the timeline, not above it.
 */

/** @param {...string} kinds @returns {(thread: any) => string[]} */
const of =
  (...kinds) =>
  ({ id }) =>
    kinds.map((kind) => `${kind}/${id}`);

/** @type {Panel[]} */
export const panels = [
  {
    id: "claim",
    on: "thread",
    side: false,
    needs: "get_thread",
    when: () => true,
    wants: of("context", "dependencies"),
    load: () => import("./panels/claim.js"),
  },
  {
    id: "gates",
    on: "thread",
    side: false,
    needs: "list_approval_gates",
    when: () => true,
    wants: of("gates"),
    load: () => import("./panels/gates.js"),
  },
  {
    id: "close",
    on: "thread",
    side: true,
    needs: "get_thread_context",
    when: ({ state }) => state === "open" || state === "in_review",
    wants: of("context"),
    load: () => import("./panels/close.js"),
  },
  {
    id: "result",
    on: "thread",
    side: true,
    needs: "get_thread_result",
    when: ({ has_result, state }) => has_result || state === "closed" || state === "in_review",
    wants: of("result"),
    load: () => import("./panels/result.js"),
  },
  {
    id: "reviews",
    on: "thread",
    side: true,
    needs: "list_reviews",
    when: () => true,
    wants: of("reviews", "review_status", "reviewers", "land_gate"),
    load: () => import("./panels/reviews.js"),
  },
  {
    id: "about",
    on: "thread",
    side: true,
    needs: "get_thread",
    when: () => true,
    load: () => import("./panels/about.js"),
  },
  {
    id: "budget",
    on: "thread",
    side: true,
    needs: "get_thread_budget",
    when: () => true,
    wants: of("budget", "usage"),
    load: () => import("./panels/budget.js"),
  },
  {
    id: "kin",
    on: "thread",
    side: true,
    needs: "list_child_threads",
    when: () => true,
    wants: of("children", "dependencies"),
    load: () => import("./panels/kin.js"),
  },
  {
    id: "checkpoint",
    on: "thread",
    side: true,
    needs: "get_thread_context",
    when: (thread, world) => isLive(thread) || Boolean(world.store.get("context", thread.id)?.checkpoint),
    wants: of("context"),
    load: () => import("./panels/checkpoint.js"),
  },
  {
    id: "memory",
    on: "thread",
    side: true,
    needs: "list_thread_memory_blocks",
    when: () => true,
    wants: of("memory"),
    load: () => import("./panels/memory.js"),
  },
];
