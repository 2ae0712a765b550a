// Matches typed text to one of many choices.
//
// Guarantees: an exact match comes before a partial match, and only exact matches resolve a text. Not here:
// the choices, and distinguishing choices of the same name.

import { fold } from "./filter.js";

/**
 * @typedef {{id: string, name: string, label: string}} Choice `label`: the name, and text that distinguishes
 * choices of the same name.
 */

/**
 * Returns the forms that a text can match: as typed, and without the sign of a handle or a channel.
 *
 * @param {string} text
 */
const meantBy = (text) => [fold(text), fold(text.replace(/^[@#]/, ""))];

/**
 * Returns the choices to offer while the user types.
 *
 * @param {Choice[]} all
 * @param {string} text
 * @param {number} most
 */
export function offered(all, text, most) {
  const wanted = meantBy(text);
  /** @type {Choice[][]} */
  const [first, others] = [[], []];
  for (const one of all) {
    const [name, label] = [fold(one.name), fold(one.label)];
    if (wanted.includes(name) || wanted.includes(label)) first.push(one);
    else if (others.length < most && wanted.some((part) => label.includes(part))) others.push(one);
  }
  return [...first, ...others].slice(0, most);
}

/**
 * Returns the choices named exactly so, or else up to case, accents and the leading sign.
 *
 * @param {Choice[]} all
 * @param {string} text
 */
export function called(all, text) {
  const same = all.filter(({ name, label }) => name === text || label === text);
  if (same.length) return same;
  const wanted = meantBy(text);
  return all.filter(({ name, label }) => wanted.includes(fold(name)) || wanted.includes(fold(label)));
}
