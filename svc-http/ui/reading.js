// Status in place of the rows of a list: loading, empty, or why the list cannot be read.
//
// Guarantees: a refusal says what is missing, and rows that were already read stay. Not here: reading
// (state/reads.js).

import { problemParts } from "./strings/en.js";
import { setAttr, setChildren, setText, show } from "./view/node.js";
import { nodesOf, plainOf } from "./view/parts.js";

/** @typedef {import("./world.js").World} World */
/** @typedef {{problem: import("./net/ask.js").Problem | null, isReading: boolean}} Progress */

/**
 * Returns the progress of the reads of some keys (`kind/id`, `list/name`).
 *
 * @param {World} world
 * @param {string[]} keys
 * @returns {Progress}
 */
export function progressOf({ store, reads }, keys) {
  let isReading = false;
  for (const key of keys) {
    const { state, problem = null } = reads.standing(key) ?? {};
    if (state === "refused") return { problem, isReading: false };
    const at = key.indexOf("/");
    isReading ||= state !== "missing" && store.get(key.slice(0, at), key.slice(at + 1)) === undefined;
  }
  return { problem: null, isReading };
}

/**
 * Shows a refusal in a node, which is hidden if there is none; the names of blocking members appear once they
 * are known.
 *
 * @param {World} world
 * @param {HTMLElement} node
 * @param {import("./strings/problems.js").Told | null | undefined} problem
 * @param {...string} before
 */
export function showProblem(world, node, problem, ...before) {
  const words = problem ? [...before, ...nodesOf(problemParts(problem), world.names)] : [];
  show(node, Boolean(problem));
  setAttr(node, "data-problem", problem?.code);
  // Unchanged text is not set again, so that a screen reader does not repeat it.
  if (node.textContent !== plainOf(words)) setChildren(node, words);
}

/**
 * Shows the progress in a node, which is hidden while it has no text.
 *
 * @param {World} world
 * @param {HTMLElement} node
 * @param {Progress} progress
 * @param {{reading: string, text: string}} say `text`: shown once all is read.
 */
export function showProgress(world, node, { problem, isReading }, { reading, text }) {
  node.classList.toggle("problem", problem !== null);
  node.classList.toggle("quiet", problem === null);
  node.classList.toggle("later", problem === null && isReading);
  const isTold = problem !== null && node.dataset.problem === problem.code;
  setAttr(node, "data-problem", problem?.code);
  if (problem && !isTold) setChildren(node, nodesOf(problemParts(problem), world.names));
  else if (!problem) setText(node, isReading ? reading : text);
  show(node, node.textContent !== "");
}
