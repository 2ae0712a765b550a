// Which of many things is meant by what is typed.
//
// Promises: what is called just so stands before what only has the words in its name, and is all that a text can
// mean. Leaves out: what there is to pick from, and how two of one name are told apart.

import { fold } from "./filter.js";

/** @typedef {{id: string, name: string, label: string}} Choice `label`: its name, and what tells it from others of it. */

/** How a text may be meant: as it stands, and without the sign of a handle or a channel. @param {string} text */
const meantBy = (text) => [fold(text), fold(text.replace(/^[@#]/, ""))];

/**
 * What to offer while one types.
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
 * What is called as a text says: to the letter, or else but for capitals, accents and the sign before it.
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
