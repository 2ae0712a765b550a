// Names of lanes, states and needs.

/** @type {Record<import("../pure/lanes.js").Lane, string>} */
export const lanes = {
  "needs-you": "Needs you",
  running: "Running",
  blocked: "Blocked",
  ready: "Ready",
  "in-review": "In review",
  done: "Done",
};

/** Texts of empty lanes. @type {Record<import("../pure/lanes.js").Lane, string>} */
export const emptyLanes = {
  "needs-you": "Nothing waits for you.",
  running: "Nobody works on anything now.",
  blocked: "Nothing is held up.",
  ready: "There is nothing to take up.",
  "in-review": "Nothing waits for judgement.",
  done: "Nothing is done yet.",
};

/** @type {Record<string, string>} */
export const states = { open: "Open", in_review: "In review", closed: "Closed", archived: "Archived", cancelled: "Cancelled" };

/** @type {Record<import("../pure/rank.js").NeedKind, string>} */
export const needs = {
  gate: "An approval is asked of you",
  lapsed: "A claim lapsed, and nobody has taken the task up",
  dead: "It failed over its budget",
  review: "A review is awaited of you",
  finding: "A critical finding is open",
  unacknowledged: "The holder has not said that it works",
  budget: "Little is left of its budget",
  mention: "It is new in your inbox",
};

/**
 * Labels of the buttons that respond to a need.
 *
 * @type {Record<import("../pure/rank.js").NeedKind, string>}
 */
export const answers = {
  gate: "Decide",
  lapsed: "Claim",
  dead: "Requeue",
  review: "Review",
  finding: "Resolve",
  unacknowledged: "Ask the holder",
  budget: "Raise the budget",
  mention: "Read",
};

/** @type {Record<string, string>} */
export const inboxReasons = {
  mention: "Mentions you",
  reply: "Replies to you",
  dm: "Writes to you",
  group_mention: "Mentions everybody in the channel",
  assigned: "Handed a task to you",
  owner: "Made you responsible",
  refuted: "Refutes what you said",
  added: "Added you to a channel",
  result: "Handed in a result",
  claim_unacknowledged: "A claim is not acknowledged",
  claim_expired: "A claim lapsed",
  review_requested: "Asks you for a review",
  approval_requested: "Asks for an approval",
  claim_taken: "Took a claim from you",
};

/** @type {Record<string, string>} */
export const limits = {
  max_tokens: "tokens",
  max_usd_micros: "money",
  max_turns: "turns",
  max_wall_secs: "time",
  max_attempts: "attempts",
};

/** @type {Record<"plenty" | "amber" | "red" | "due", (left: string) => string>} */
export const leases = {
  plenty: (left) => `${left} left`,
  amber: (left) => `Only ${left} left`,
  red: (left) => `Ends in ${left}`,
  due: () => "Lease due, checking",
};

/**
 * Reasons why the member cannot decide an approval.
 *
 * @type {Record<"own" | "needs-person" | "capability" | "over", (capability: string) => string>}
 */
export const cannotAnswer = {
  own: () => "It is your own request: somebody else has to decide.",
  "needs-person": () => "Only a person may accept this.",
  capability: (capability) => `Accepting it needs the capability ${capability}.`,
  over: () => "It has been decided.",
};

/** @param {number} priority */
export function priorityText(priority) {
  if (priority === 0) return "Normal priority";
  return priority > 0 ? `Priority +${priority}` : `Priority ${priority}`;
}
