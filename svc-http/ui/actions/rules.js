// Actions on limits for claims: capacities of slots, paused repositories.
//
// Not here: the claims.

import { leaves } from "./rows.js";

/** @typedef {import("../actions.js").Action} Action */

/** @param {any} payload @param {any} input */
const sameSlot = (payload, input) => payload.slot.toLowerCase() === input.slot.toLowerCase();
/**
 * Returns whether the typed text, perhaps a clone URL, may mean this repository; only the server can parse
 * all forms.
 *
 * @param {any} payload
 * @param {any} input
 */
const sameRepo = (payload, input) =>
  input.repo.replaceAll("%20", " ").toLowerCase().includes(payload.repo.split("/").at(-1).toLowerCase());

/** @type {Action[]} */
export const rules = [
  {
    id: "set_slot_capacity",
    op: "set_slot_capacity",
    on: "slot",
    isMain: true,
    when: () => true,
    fill: ({ slot }) => ({ slot }),
    fields: ["capacity"],
    now: ({ capacity }) => ({ capacity }),
    leaves: leaves("SlotCapacitySet", sameSlot),
  },
  {
    id: "clear_slot_capacity",
    op: "clear_slot_capacity",
    on: "slot",
    isMain: true,
    confirm: "press",
    when: ({ capacity }) => capacity !== null,
    fill: ({ slot }) => ({ slot }),
    leaves: leaves("SlotCapacityCleared", sameSlot),
  },
  {
    id: "new_slot",
    op: "set_slot_capacity",
    on: "workspace",
    when: () => true,
    fill: () => ({}),
    fields: ["slot", "capacity"],
    leaves: leaves("SlotCapacitySet", sameSlot),
  },
  {
    id: "pause_repo",
    op: "pause_repo",
    on: "workspace",
    when: () => true,
    fill: () => ({}),
    fields: ["repo", "reason"],
    leaves: leaves("RepoPaused", sameRepo),
  },
  {
    id: "pause_reason",
    op: "pause_repo",
    on: "pause",
    isMain: true,
    when: () => true,
    fill: ({ repo }) => ({ repo }),
    fields: ["reason"],
    now: ({ reason }) => ({ reason }),
    leaves: leaves("RepoPaused", sameRepo),
  },
  {
    id: "resume_repo",
    op: "resume_repo",
    on: "pause",
    isMain: true,
    confirm: "press",
    when: () => true,
    fill: ({ repo }) => ({ repo }),
    leaves: leaves("RepoResumed", sameRepo),
  },
];
