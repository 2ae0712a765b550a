// Text of others as it is: characters that are not seen, or that turn the text around, become nodes that say their names.

/** @typedef {import("./text.js").TextNode} TextNode */

/**
 * Controls; marks, embeddings and isolates of direction; what has no width; what hides words in tags and selectors; halves
 * of characters. The joiners of emoji and of scripts that need them are text.
 */
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|\p{Cs}/gu;

/** @param {string} char */
const nameOf = (char) => `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;

/**
 * @param {string} text no Markdown: a title, a name
 * @returns {TextNode[]}
 */
export function shown(text) {
  /** @type {TextNode[]} */
  const nodes = [];
  let from = 0;
  for (const { 0: char, index } of text.matchAll(HIDDEN)) {
    if (index > from) nodes.push({ type: "text", text: text.slice(from, index) });
    nodes.push({ type: "control", text: nameOf(char) });
    from = index + char.length;
  }
  if (from < text.length) nodes.push({ type: "text", text: text.slice(from) });
  return nodes;
}

/**
 * @param {string} text
 * @returns {string} the same where only a string can stand, as in the title of a window
 */
export function shownText(text) {
  return text.replace(HIDDEN, nameOf);
}
