// Texts of the workspace's administration.

import { plural } from "./plural.js";

export const admin = {
  title: "Administration",
  nav: "Parts of the administration",
  lacks: (/** @type {string} */ capability) =>
    `Needs ${capability}, which this session does not have. It is not shown.`,
  reading: "Reading…",
  failed: "This part could not be loaded.",
  ended: "Also what has ended",
  waits: (/** @type {number} */ count) =>
    count > 0 ? plural(count, { one: "# new", other: "# new" }) : "Changed",
  more: (/** @type {number} */ count) => plural(count, { one: "Show # more", other: "Show # more" }),
  until: "Until",
  noEnd: "does not end",
  created: "Made",
  by: (/** @type {string} */ when) => `${when} by `,
  can: "Can do",
  revoked: "Revoked",
  expired: "Expired",
  released: "Released",
  none: "None",
  days: (/** @type {number} */ count) => plural(count, { one: "# day", other: "# days" }),
  /** @type {Record<string, {name: string, hint: string}>} */
  parts: {
    workspace: { name: "Workspace", hint: "What it is called, and where its record is." },
    members: { name: "Members and agents", hint: "Whom it has. A frozen member may only read." },
    tokens: {
      name: "Tokens",
      hint: "A token acts as its member. Its secret is shown once, when it is made or rotated.",
    },
    grants: {
      name: "Grants",
      hint: "By a grant one member acts for another; what it does is recorded as that of both.",
    },
    apps: {
      name: "Apps",
      hint: "An app acts as a member of its own, with what it was granted when it was installed.",
    },
    tickets: {
      name: "Share tickets",
      hint: "By a ticket somebody who is no member reads one channel, for 48 hours at most.",
    },
    retention: {
      name: "Retention",
      hint: "What is older is removed for good by the next round, unless there is a legal hold.",
    },
    holds: {
      name: "Legal holds",
      hint: "While one is in force nothing is withdrawn, purged, pruned or erased.",
    },
    spawn: {
      name: "Spawn budget",
      hint: "How far tasks may be divided into children. Those that there are stay.",
    },
    export: {
      name: "Export",
      hint: "The whole workspace as one signed file: its rows and its log.",
    },
  },
};

export const adminParts = {
  name: "Name",
  handle: "Handle",
  noHandle: "none",
  id: "Id",
  joined: "Joined",
  tokens: "See them",
  presence: "Who is there",
  former: "Also the deactivated",
  whose: "Whose",
  tokensOf: "Tokens",
  noTokens: "It has no tokens.",
  unnamed: "Without a name",
  derived: "Derived",
  delegated: "Delegated",
  ofApp: "Of an app",
  quota: "Most requests in a window",
  noGrants: "Nobody acts for anybody.",
  actsFor: " acts for ",
  ceiling: (/** @type {string} */ days) => `A grant lasts ${days} at most.`,
  noApps: "There are no apps.",
  installed: "Installed",
  notInstalled: "Not installed",
  installedAs: "Acts as",
  noTickets: "Nothing is shared.",
  shares: "Shows ",
  artifacts: (/** @type {number} */ count) =>
    plural(count, { one: "and # artifact", other: "and # artifacts" }),
  noHolds: "There are no legal holds.",
  placed: "Placed",
  inForce: "In force",
  /** @type {Record<string, string>} */
  kept: {
    messages_days: "Messages",
    events_days: "Events",
    deliveries_days: "Records of deliveries",
    media_days: "Media",
    media_quota_bytes: "Most media",
  },
  ofWorkspace: "This workspace",
  ofInstance: "Longest here",
  effective: "What holds",
  forever: "not pruned",
  unlimited: "no limit",
  unset: "as the instance",
  what: "What",
  pending: (/** @type {number} */ messages, /** @type {number} */ events) =>
    `The next round removes ${plural(messages, { one: "# message", other: "# messages" })} and ${plural(events, { one: "# event", other: "# events" })}.`,
  nothingPending: "The next round removes nothing.",
  depth: "Depth",
  children: "Children of a task",
  tools: "Tools of a child",
  any: "any number",
  words: "Words",
  /** @type {Record<string, string>} */
  wordsOf: { all: "With all words, so that it can be imported", none: "Evidence without words" },
  download: "Download the export",
  exportHint: "Direct messages that you are not in are left out. It is noted in the audit trail.",
};
