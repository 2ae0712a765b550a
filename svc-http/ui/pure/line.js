// Shortens Markdown to one line, without rendering it, and trims text that is sent.

import { shownText } from "./shown.js";

/**
 * @param {string} text
 * @param {number} [max] maximum characters
 * @returns {string}
 */
export function oneLine(text, max = 200) {
  // Cuts a long text first, since only its beginning can be shown.
  const chars = Array.from(text.slice(0, max * 4).replace(/\s+/g, " ").trim());
  return shownText(chars.length > max ? `${chars.slice(0, max - 1).join("").trimEnd()}…` : chars.join(""));
}

/**
 * Returns the text to send: without leading empty lines and trailing white space.
 *
 * The indentation of the first line is kept, since it has a meaning in Markdown.
 *
 * @param {string} text
 */
export const typed = (text) => text.replace(/^\s*\n/, "").trimEnd();
