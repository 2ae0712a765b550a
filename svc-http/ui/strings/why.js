// Sentences, as parts: why a task has no holder, what would unblock it, and what it needs to close.

import { limits } from "./lanes.js";
import { plural } from "./plural.js";

/** @import { Part } from "../pure/types.js" */
/** @import { Why } from "../pure/why.js" */
/** @import { WhyCode } from "../pure/why.js" */
/** @import { UnblockCode } from "../pure/why.js" */

const names = new Intl.ListFormat("en", { type: "conjunction" });

/** @param {string[]} exceeded */
const spent = (exceeded) =>
  exceeded.length ? ` (${names.format(exceeded.map((limit) => limits[limit] ?? limit))})` : "";

/** @param {Why} why @returns {Part[]} */
function claim({ holder, until, thread, hidden }) {
  /** @type {Part[]} */
  const parts = hidden ? ["somebody in a channel that you cannot see"] : holder ? [{ member: holder }] : ["another member"];
  if (thread) parts.push(" on ", { thread });
  if (until) parts.push(", until ", { time: until });
  return parts;
}

/** @param {string[]} ids @returns {Part[]} */
function threads(ids) {
  return ids.slice(0, 3).flatMap((thread, at) => (at === 0 ? [{ thread }] : [", ", { thread }]));
}

/** @param {Why} why @returns {Part[]} */
function waits({ threads: ids = [], count = 1 }) {
  const left = count - Math.min(ids.length, 3);
  if (ids.length === 0) return [plural(count, { one: "It waits for another task", other: "It waits for # other tasks" })];
  const more = left > 0 ? [plural(left, { one: " and # more", other: " and # more" })] : [];
  return ["It waits for ", ...threads(ids), ...more];
}

/** @type {Record<WhyCode, (why: Why) => Part[]>} */
export const blocks = {
  overlap: (why) => [...(why.item ? [{ code: why.item }, " is held by "] : ["What it touches is held by "]), ...claim(why)],
  "slot-full": (why) => (why.item ? ["The slot ", { code: why.item }, " is full"] : ["A slot that it needs is full"]),
  "repo-paused": ({ repo }) => (repo ? ["The repository ", { code: repo }, " is paused"] : ["Its repository is paused"]),
  dependencies: waits,
  skills: ({ skills = [] }) => [`No active member has all skills that it requires (${names.format(skills)})`],
  "missing-skills": ({ skills = [] }) => [`You lack skills that it requires (${names.format(skills)})`],
  budget: ({ exceeded = [] }) => [`Nothing is left of its budget${spent(exceeded)}`],
  "dead-letter": ({ exceeded = [] }) => [`It failed over its budget${spent(exceeded)}`],
  claimed: (why) => ["It is held by ", ...claim(why)],
  "handed-in": () => ["Its work is handed in and waits for judgement"],
  done: () => ["It is done"],
  archived: () => ["Its channel is archived"],
  dm: () => ["It is a direct message, and no task"],
  frozen: () => ["You are frozen and may only read"],
  capability: ({ detail }) => [detail || "Your session may not claim tasks"],
  refused: ({ detail }) => [detail ?? "It was refused"],
};

/** @type {Record<UnblockCode, (why: Why) => Part[]>} */
export const unblocks = {
  ends: ({ holder, hidden }) =>
    holder && !hidden ? ["it is free when the claim ends: ask ", { member: holder }] : ["it is free when the claim ends"],
  slot: ({ until }) => (until ? ["the next place is free by ", { time: until }] : ["it is free when a claim on the slot ends"]),
  resume: () => ["resume the repository"],
  finish: ({ threads: ids = [] }) =>
    ids.length ? ["finish that first, or wait for it no longer"] : ["that has to be finished first"],
  skill: () => ["require fewer skills, or add a member who has them"],
  raise: () => ["raise the limit"],
  requeue: () => ["look at it, and requeue it"],
  "hand-off": () => ["have it handed off"],
  close: () => ["close it, or return it to open"],
  reopen: () => ["reopen it to have it done again"],
  unarchive: () => ["unarchive the channel"],
  unfreeze: () => ["an administrator can unfreeze you"],
  token: () => ["an administrator can give you a token that may"],
  nothing: () => [],
};

/**
 * Returns one sentence: the obstacle, and what would remove it.
 *
 * @param {Why} why
 * @returns {Part[]}
 */
export function sentence(why) {
  const frees = unblocks[why.unblock](why);
  return frees.length ? [...blocks[why.code](why), "; ", ...frees, "."] : [...blocks[why.code](why), "."];
}

/** @param {number} count */
export const andMore = (count) => plural(count, { one: "and # more reason", other: "and # more reasons" });

/**
 * Lines of the closing checklist; the server supplies details.
 *
 * @type {Record<string, (count: number) => string>}
 */
export const closes = {
  children: (count) => plural(Math.max(1, count), { one: "A child task is not closed", other: "# child tasks are not closed" }),
  approvals: () => "Approving reviews are missing",
  findings: (count) =>
    plural(Math.max(1, count), { one: "A critical finding is not resolved", other: "# critical findings are not resolved" }),
  "approval-gate": (count) =>
    plural(Math.max(1, count), { one: "An approval is not accepted", other: "# approvals are not accepted" }),
  "land-gate": () => "The land gate has no pass that counts",
  refutes: (count) =>
    plural(Math.max(1, count), { one: "A refutation is not resolved", other: "# refutations are not resolved" }),
};
