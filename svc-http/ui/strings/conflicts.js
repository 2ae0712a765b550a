// Texts of the conflicts screen: held and waiting footprints, slots, paused repositories.

import { plural } from "./plural.js";

export const conflicts = {
  title: "Conflicts",
  repo: "Repository",
  allRepos: "All repositories",
  held: "Held",
  heldList: "What is held, what most wait for first",
  noneHeld: "Nothing is held that anybody else could need.",
  reading: "Reading who waits…",
  atLeast: (/** @type {string} */ count) => `Only the first ${count} tasks that wait were looked at.`,
  waits: (/** @type {number} */ count) =>
    count > 0 ? plural(count, { one: "# new", other: "# new" }) : "Changed",
  more: (/** @type {number} */ count) => plural(count, { one: "Show # more", other: "Show # more" }),
  hidden: "A task in a channel that you cannot see",
  heldBy: "held by ",
  alone: "alone",
  shared: "shared",
  behind: (/** @type {number} */ count) =>
    plural(count, { one: "# task waits behind it", other: "# tasks wait behind it" }),
  nobody: "Nobody waits behind it.",
  forItems: "for ",
  menu: (/** @type {string} */ title) => `Actions: ${title}`,
  slots: "Slots",
  slotsHint: "Resources that footprints name; a capacity says how many claims may use one at the same time.",
  noSlots: "No slot has a capacity or is in use.",
  used: (/** @type {number} */ used, /** @type {number} */ capacity) => `${used} of ${capacity} in use`,
  usedFree: (/** @type {number} */ used) => `${used} in use, without a capacity`,
  closed: "closed for new claims",
  full: "full",
  usedBy: "Used by ",
  slotWaits: "Waiting for a place: ",
  pauses: "Paused repositories",
  pausesHint: "Nothing in them can be claimed; claims that are held go on.",
  noPauses: "No repository is paused.",
  pausedBy: "Paused by ",
  pauseWaits: "Waiting: ",
  andMore: (/** @type {number} */ count) => plural(count, { one: " and # more", other: " and # more" }),
};
