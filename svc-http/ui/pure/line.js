// Markdown in one line, where there is room for no more: as it was written, on a card or in a citation; and as it is sent.

import { shownText } from "./shown.js";

/**
 * @param {string} text
 * @param {number} [max] characters at most
 * @returns {string}
 */
export function oneLine(text, max = 200) {
  // Of a long text, no more is looked at than what could be shown.
  const chars = Array.from(text.slice(0, max * 4).replace(/\s+/g, " ").trim());
  return shownText(chars.length > max ? `${chars.slice(0, max - 1).join("").trimEnd()}…` : chars.join(""));
}

/**
 * Returns what is sent of a typed text: all but empty lines before it and white space after it. Where its first line begins
 * counts.
 *
 * @param {string} text
 */
export const typed = (text) => text.replace(/^\s*\n/, "").trimEnd();
