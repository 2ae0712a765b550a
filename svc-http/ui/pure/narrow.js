// Filters and sorts a list of commands by typed text.
//
// Guarantees: names that begin with the text are first, then names that contain its words, then commands
// whose note contains them. The title of a task, for example, is a note of its actions, not their name.

import { fold } from "./filter.js";

/**
 * @template {{label: string, note: string, op?: string, name?: string}} E
 * @param {E[]} entries `name`: name of the command, if the label is longer; `op`: its operation
 * @param {string} text text whose words must all match
 * @returns {{named: E[], about: E[]}} of each group in the given order; `about`: entries that match by their
 * note
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
