// Texts of the board: its lanes, filters and cards.

import { plural } from "./plural.js";

export const board = {
  title: "Board",
  filter: "Filter",
  filterHint: "Words, or in:channel @member repo:name skill:word p>3",
  clear: "Clear",
  group: "Group by",
  groups: { "": "Nothing", channel: "Channel", member: "Agent", repo: "Repository" },
  none: "None",
  lanes: "Lanes",
  waits: (/** @type {number} */ count) =>
    count > 0 ? plural(count, { one: "# new", other: "# new" }) : "Changed",
  atLeast: (/** @type {string} */ count) => `${count}+`,
  reading: "Reading the tasks…",
  notAll: (/** @type {string} */ count) =>
    `The newest ${count} tasks are shown; filter by channel, agent or state to see others.`,
  notAllOf: (/** @type {string} */ count) =>
    `The newest ${count} tasks are looked through; filter by channel, agent or state, too.`,
  onlyHeld: "Older tasks are shown if they are held.",
  menu: (/** @type {string} */ title) => `Actions of ${title}`,
};

export const card = {
  holder: (/** @type {string} */ name) => name,
  nobody: "Nobody",
  unacknowledged: "No word",
  lateWord: "No word yet",
  freeAsKnown: "Free as far as is known: not all tasks that wait could be looked at.",
  touches: (/** @type {string} */ repo, /** @type {string} */ items) => (repo ? `${repo}: ${items}` : items),
  moved: (/** @type {string} */ lane) => `Now in ${lane}`,
  gone: "Not here any more",
  refused: "Refused",
  chosen: "Chosen",
  dead: "Failed",
  exhausted: "Budget used up",
  approval: "Approval",
  review: "Review",
  cancelled: "Cancelled",
  result: "Handed in",
  /** Counts above 99 are not shown exactly. */
  unread: (/** @type {number} */ count) =>
    count < 100 ? plural(count, { one: "# unread", other: "# unread" }) : "100+ unread",
  waits: (/** @type {number} */ count) =>
    plural(count, { one: "Waits for # task", other: "Waits for # tasks" }),
  said: (/** @type {string} */ name, /** @type {string} */ text) => `${name}: ${text}`,
  in: (/** @type {string} */ channel, /** @type {string} */ when) => `${channel}, ${when}`,
};
