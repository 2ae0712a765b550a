// Texts of refusals, and the ways to resolve them.

import { blocks, closes } from "./why.js";
import { whyRefused } from "../pure/why.js";

/** @import { Part } from "../pure/types.js" */
/**
 * @typedef {{code: string, status: number, detail: string} & Record<string, any>} Refusal A refusal with the
 * extra members of its problem document.
 */
/**
 * @typedef {{code: string, status: number, detail: string, members?: Record<string, any>}} Told A refusal as
 * `net/ask.js` throws it.
 */

/** @param {Told} told @returns {Refusal} */
const whole = (told) => ({ ...told.members, code: told.code, status: told.status, detail: told.detail });

/** @type {Record<string, (refusal: Refusal) => Part[]>} */
const SAID = {
  "footprint-conflict": whys,
  "not-claimable": whys,
  "budget-exhausted": whys,
  "member-frozen": whys,
  "stale-claim": () => ["The claim is no longer current: it lapsed, was released or handed on"],
  "claim-not-held": () => ["You do not hold the claim that this needs"],
  "close-refused": ({ reasons = [] }) => joined(reasons.map(reason)),
  "wrong-state": ({ detail }) => [detail],
  "name-taken": () => ["Another has this name"],
  "handle-taken": () => ["Another has this handle, or it means several members"],
  "spawn-rejected": ({ limit, allowed }) => ["The spawn budget allows no more: ", { code: `${limit}: ${allowed}` }],
  "dependency-cycle": () => ["It would wait for itself"],
  "not-visible-to-all": () => ["Not all who would learn of it may see it"],
  "legal-hold": () => ["A legal hold is in force, under which nothing is destroyed"],
  "version-conflict": ({ updated_by }) =>
    updated_by ? [{ member: updated_by }, " has changed it since you read it"] : ["It was changed since you read it"],
  "missing-capability": ({ required_capability, detail }) =>
    required_capability ? ["Your session lacks ", { code: required_capability }] : [detail],
  "needs-person": () => ["A person has to accept this"],
  "not-found": () => ["It is not there (any more), or you may not see it"],
  "rate-limited": ({ retry_after_secs }) =>
    retry_after_secs ? [`Too many requests: try again in ${retry_after_secs} s`] : ["Too many requests: try again soon"],
  unauthenticated: ({ by_token }) =>
    by_token ? ["The token is not valid, or it is of another member than the session"] : ["The session has ended"],
  unreachable: () => ["The server could not be reached"],
  "outcome-unknown": () => ["Nobody has said whether it happened: looking it up"],
  overloaded: () => ["The server is overloaded: try again in a moment"],
  closing: () => ["The server is closing: try again in a moment"],
};

/** @param {Refusal} refusal @returns {Part[]} */
function whys(refusal) {
  return joined(whyRefused(refusal).map((why) => blocks[why.code](why)));
}

/** @param {{condition: string, detail: string, ids: string[]}} reason @returns {Part[]} */
function reason({ condition, detail, ids }) {
  return [closes[condition]?.(ids.length) ?? detail];
}

/** @param {Part[][]} sentences @returns {Part[]} */
function joined(sentences) {
  return sentences.slice(0, 3).flatMap((parts, at) => (at === 0 ? parts : ["; ", ...parts]));
}

/**
 * @param {Told} told
 * @returns {Part[]} what caused the refusal
 */
export function problemParts(told) {
  const refusal = whole(told);
  const parts = SAID[refusal.code]?.(refusal) ?? [];
  return parts.length ? parts : [refusal.detail || "The server refused"];
}

/** @typedef {"wait" | "ask-holder" | "narrow" | "read-again" | "try-again" | "requeue" | "raise"} Way */

/** @type {Record<string, Way[]>} */
const WAYS = {
  "footprint-conflict": ["wait", "ask-holder", "narrow"],
  "stale-claim": ["read-again"],
  "claim-not-held": ["read-again"],
  "version-conflict": ["read-again"],
  "wrong-state": ["read-again"],
  "budget-exhausted": ["raise"],
  unreachable: ["try-again"],
  overloaded: ["try-again"],
  closing: ["try-again"],
};

/**
 * @param {Told} told
 * @returns {Way[]} what the user can do about the refusal
 */
export function waysOut(told) {
  const refusal = whole(told);
  if (refusal.code === "not-claimable" && refusal.reason === "claimed") return ["wait", "ask-holder"];
  if (refusal.code === "not-claimable" && refusal.reason === "dead-letter") return ["requeue"];
  return WAYS[refusal.code] ?? [];
}

/** @type {Record<Way, string>} */
export const ways = {
  wait: "Wait until it is free",
  "ask-holder": "Ask the holder",
  narrow: "Narrow what it touches",
  "read-again": "Read it again",
  "try-again": "Try again",
  requeue: "Requeue it",
  raise: "Raise the budget",
};
