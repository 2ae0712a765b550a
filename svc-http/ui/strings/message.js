// Texts of messages, direct messages, the inbox and channels.

import { number } from "../pure/format.js";
import { plural } from "./plural.js";

export const message = {
  answer: "Answer",
  another: "another message",
  resolved: "resolved",
  earlier: "Earlier texts",
  noEarlier: "There are no earlier texts.",
  backlinks: "What leads to this message",
  noBacklinks: "Nothing leads to it that you may see.",
  pinnedIt: " pinned it",
  reacted: (/** @type {string} */ sign) => ` gave the sign ${sign}`,
  asks: "It asks for a vote",
  notRead: "It could not be read.",
  /** @type {Record<string, string>} */
  relates: {
    supports: "Supports",
    refutes: "Refutes",
    cites: "Cites",
    supersedes: "Replaces",
    replies_to: "Answers",
    duplicates: "Repeats",
  },
  /** @type {Record<string, string>} */
  relatedBy: {
    supports: "Supported by",
    refutes: "Refuted by",
    cites: "Cited by",
    supersedes: "Replaced by",
    replies_to: "Answered by",
    duplicates: "Repeated by",
  },
};

export const dms = {
  title: "Messages",
  reading: "Reading your messages…",
  none: "You have no direct messages.",
  choose: "Choose a conversation, or begin one.",
  all: "All messages",
  unread: (/** @type {number} */ count) => plural(count, { one: "# unread", other: "# unread" }),
  silent: "Nothing was said yet",
  gone: "You are not in this conversation.",
  more: (/** @type {number} */ count) => plural(count, { one: "Show # more", other: "Show # more" }),
};

export const inbox = {
  title: "Inbox",
  reading: "Reading your inbox…",
  nothing: "You have read everything.",
  empty: "Your inbox is empty.",
  show: "Show",
  unread: "Unread",
  all: "All",
  reason: "Reason",
  any: "Any",
  markAll: "Mark all read",
  markChosen: "Mark read",
  count: (/** @type {number} */ count, /** @type {boolean} */ isWhole) =>
    isWhole ? number(count) : `${number(count)}+`,
  marked: "read",
  chosen: (/** @type {number} */ count) => plural(count, { one: "# is chosen", other: "# are chosen" }),
  choose: (/** @type {string} */ what) => `Choose ${what}`,
  more: (/** @type {number} */ count) => plural(count, { one: "Show # more", other: "Show # more" }),
};

export const channel = {
  reading: "Reading the channel…",
  missing: "There is no such channel, or you may not see it.",
  refused: "The channel cannot be read.",
  private: "Private",
  archived: "Archived",
  dm: "Direct message",
  others: "Channels",
  tasks: "Tasks",
  show: "Show",
  which: { open: "Open", done: "Done", all: "All" },
  noTasks: "There are no such tasks in the channel.",
  older: "Older tasks may be missing here; filter the board by this channel to see them.",
  choose: "Choose a task to read what is said in it.",
  openTask: "Open the task",
  back: "All tasks of the channel",
  actions: "Actions",
  parts: "About the channel",
  boot: "Read on arrival",
  noBoot: "Nothing is set that one reads on arrival.",
  bootBy: (/** @type {number} */ version) => `Version ${version}, by `,
  pins: "Pins",
  noPins: "Nothing is pinned.",
  members: "Members",
  noMembers: "Nobody is in it. Everybody sees a public channel all the same.",
  glossary: "Glossary",
  noTerms: "The glossary of the workspace is empty.",
};
