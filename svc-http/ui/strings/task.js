// Texts of a task and its panels.

import { plural } from "./plural.js";

export const task = {
  reading: "Reading the task…",
  missing: "There is no such task, or you may not see it.",
  refused: "The task cannot be read.",
  board: "Board",
  parts: "About the task",
  timeline: "Timeline",
  actions: "Actions",
  earlier: (/** @type {number} */ count) => plural(count, { one: "Show # earlier", other: "Show # earlier" }),
  readingEarlier: "Reading what came before…",
  notRead: "What came before could not be read.",
  olderNotShown: "What is older than this is not shown here.",
  withdrawn: "Withdrawn",
  gone: "Not here any more",
  unreadable: "The service cannot open this message.",
  edited: (/** @type {number} */ edits) => plural(edits, { one: "edited", other: "edited # times" }),
  pinned: "pinned",
  menuOf: (/** @type {string} */ name) => `Actions of the message of ${name}`,
  reactions: "Reactions",
  artifact: (/** @type {string} */ name) => `Artifact ${name}`,
  data: "Data",
};

export const composer = {
  label: "Write a message",
  placeholder: "Write a message; @ names somebody",
  send: "Send",
  hint: "Ctrl+Enter sends",
  mentions: "Members",
  preview: "Preview",
  relation: "How the answer stands to it",
  notReached: (/** @type {string} */ names) =>
    `It will not reach ${names}: nobody is called so who sees the channel.`,
  sent: (/** @type {string} */ names) => `Sent. It did not reach ${names}.`,
};

/** @type {Record<string, string>} */
export const panelNames = {
  claim: "Claim",
  gates: "Approvals",
  close: "What a close still needs",
  result: "Result",
  reviews: "Reviews",
  about: "About",
  budget: "Budget",
  kin: "Children and what it waits for",
  checkpoint: "Checkpoint",
  memory: "Memory blocks",
};

export const parts = {
  heldBy: "Held by ",
  acknowledged: "acknowledged",
  noWord: "no word yet",
  late: "not acknowledged",
  free: "Nobody works on it, and it can be claimed.",
  freeAsKnown:
    "Nobody works on it. So many tasks wait that not all could be looked at: a claim says whether something is in its way.",
  inReview: "It is in review: its work is handed in.",
  done: (/** @type {string} */ state) => `${state}.`,
  show: "Show",
  ready: "Nothing is missing: it can be closed.",
  needed: (/** @type {number} */ count) =>
    plural(count, { one: "# thing is missing.", other: "# things are missing." }),
  producedBy: "Handed in by ",
  purged: "Its words were purged.",
  noResult: "There is no result.",
  approvals: (/** @type {number} */ has, /** @type {number} */ needs) => `${has} of ${needs} approvals`,
  noneRequired: "No approval is required",
  votes: (/** @type {number} */ count) => plural(count, { one: "# vote", other: "# votes" }),
  voteClosed: "The vote is closed.",
  noReviews: "There are no reviews.",
  reviewers: "Reviewers",
  counts: "counts",
  noCount: (/** @type {string} */ why) => `does not count: ${why}`,
  line: (/** @type {string} */ path, /** @type {number | null} */ line) => (line ? `${path}:${line}` : path),
  landGate: "Land gate",
  landMissing: "no pass that counts",
  priority: "Priority",
  owner: "Owner",
  channel: "Channel",
  skills: "Skills",
  touches: "Touches",
  exclusive: "alone",
  shared: "shared",
  tools: "Tools",
  created: "Created",
  by: (/** @type {string} */ when) => `${when} by `,
  none: "None",
  of: (/** @type {string} */ used, /** @type {string} */ limit) => `${used} of ${limit}`,
  noBudget: "It has no limits.",
  parent: "Part of ",
  children: "Children",
  dependencies: "Waits for",
  finished: "finished",
  forWhom: (/** @type {string} */ time) => `left ${time} by `,
  noBlocks: "No memory blocks are attached.",
  readOnly: "read only",
  version: (/** @type {number} */ version) => `version ${version}`,
  asks: " asks",
  untilThen: "until ",
  whoElse: (/** @type {string} */ capability, /** @type {boolean} */ needsPerson) =>
    needsPerson
      ? `A person with the capability ${capability} decides it.`
      : `Whoever has the capability ${capability} decides it.`,
  whoElseNamed: (/** @type {string} */ who, /** @type {string} */ names, /** @type {number} */ more) =>
    more > 0
      ? plural(more, {
          one: `${who} People who see it: ${names}, and # more.`,
          other: `${who} People who see it: ${names}, and # more.`,
        })
      : `${who} People who see it: ${names}.`,
  linkMade: "A link for somebody who may, until ",
  needsPerson: "Only a person accepts it",
  blocksClose: "The task does not close before it is accepted",
  decided: {
    accepted: "Accepted",
    declined: "Declined",
    cancelled: "Withdrawn",
    expired: "Expired",
    pending: "Open",
  },
  tokenLabel: "A token with the capability",
  tokenHint: "It is sent once, with this decision, and kept nowhere.",
  lacksPart: (/** @type {string} */ capability) => `Needs ${capability}, which this session does not have.`,
  partFailed: "This part could not be read.",
  verdicts: { approve: "Approves", request_changes: "Asks for changes", comment: "Comments" },
  landVerdicts: { pass: "Pass", fail: "Fail" },
  severities: { critical: "Critical", major: "Major", minor: "Minor", info: "Note" },
  resolutions: { fixed: "Fixed", invalid: "Not valid", wont_fix: "Will not fix" },
  waiting: "You are told here when it is free.",
};
