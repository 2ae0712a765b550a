// What a list of commands has left of it when something is typed, in the order in which it is meant.
//
// What is called so stands first, what has the words in its name next, and what has them only in what is said about it
// last: the title of a task is about what can be done with it, and not what that is called.

import { fold } from "./filter.js";

/**
 * @template {{label: string, note: string, op?: string, name?: string}} E
 * @param {E[]} entries `name`: what it is called, if its label says more; `op`: the operation that it is
 * @param {string} text all words of it are wanted
 * @returns {{named: E[], about: E[]}} of each as they stood; `about`: those that are not called so
 */
export function narrowed(entries, text) {
  const whole = fold(text).trim();
  const wanted = whole.split(/\s+/).filter(Boolean);
  /** @param {string} within */
  const has = (within) => wanted.every((word) => within.includes(word));
  /** @type {E[][]} */
  const [first, named, about] = [[], [], []];
  for (const entry of entries) {
    const { label, note, op = "", name = label } = entry;
    const called = fold(`${label} ${op.replaceAll("_", " ")} ${op}`);
    if (has(called)) (fold(name).startsWith(whole) ? first : named).push(entry);
    else if (has(`${called} ${fold(note)}`)) about.push(entry);
  }
  return { named: [...first, ...named], about };
}
