// Text of others as it is: characters that are not seen, or that turn the text around, become nodes that say their names.
// Of very many the first are named and the others counted, and so are the marks on one letter: whatever a text is made of,
// it is few nodes, and none that takes long to draw.

import { number } from "./format.js";

/** @typedef {{type: "text" | "control", text: string} | {type: "more", count: number}} ShownNode */
/**
 * @typedef {{names: number, rows: number, marks: number, line: number}} Left What of one body may still be drawn: so many hidden
 * characters are named, and lines of diffs told apart; `marks`: how many stand on its last letter; `line`: how long its
 * last line is so far.
 */

/**
 * Controls; marks, embeddings and isolates of direction; what has no width; what hides words in tags and selectors; halves
 * of characters. The joiners of emoji and of scripts that need them are text.
 */
const HIDDEN =
  "(?![\\t\\n\\u200c\\u200d\\ufe00-\\ufe0f])[\\p{Cc}\\p{DI}]|[\\u2028\\u2029\\u2800\\ufff9-\\ufffb\\u{13430}-\\u{1343f}\\p{Cs}]";
/** Marks that are drawn of those on one letter; joiners between them are on it, too. */
const MARKS_MAX = 8;
const ON_LETTER = `(?!${HIDDEN})[\\p{M}\\u200c\\u200d]`;
const ODD = new RegExp(`(${HIDDEN})|(?:${ON_LETTER}){${MARKS_MAX + 1},}`, "gu");
const AT_END = new RegExp(`(?:${ON_LETTER}){0,${MARKS_MAX}}$`, "u");

/** Hidden characters that are named of one run, and of one body. */
const RUN_MAX = 100;
const NAMES_MAX = 500;
/** Lines of diffs that are told apart in one body. */
const ROWS_MAX = 2000;
/** Stands for a hidden character that is not named. */
const UNNAMED = "\ufffd";

/** @returns {Left} */
export const newLeft = () => ({ names: NAMES_MAX, rows: ROWS_MAX, marks: 0, line: 0 });

/** @param {string} char */
const nameOf = (char) => `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;

/**
 * @param {string} text no Markdown: a title, a name
 * @param {Left} [left] of the body that the text is in
 * @returns {ShownNode[]}
 */
export function shown(text, left = newLeft()) {
  // Marks go on with those before.
  const before = Math.min(left.marks, MARKS_MAX);
  text = "\u0301".repeat(before) + text;
  /** @type {ShownNode[]} */
  const nodes = [];
  let said = "";
  // Of the run that ends where the next match may begin: how long it is, and how many of it are counted.
  const run = { end: -1, length: 0, counted: 0 };
  let unnamed = 0;
  let from = before;
  const speak = () => {
    if (said) nodes.push({ type: "text", text: said });
    said = "";
  };
  /** @param {number} count */
  const count = (count) => {
    if (count === 0) return;
    speak();
    nodes.push({ type: "more", count });
  };
  const endRun = () => {
    count(run.counted);
    Object.assign(run, { length: 0, counted: 0 });
  };
  for (const { 0: odd, 1: hidden, index } of text.matchAll(ODD)) {
    if (index !== run.end) endRun();
    said += text.slice(from, index);
    from = index + odd.length;
    if (hidden === undefined) {
      const marks = Array.from(odd);
      said += marks.slice(index < before ? before : 0, MARKS_MAX).join("");
      count(marks.length - MARKS_MAX);
    } else {
      run.end = from;
      run.length += 1;
      if (run.length > RUN_MAX) run.counted += 1;
      else if (left.names > 0) {
        left.names -= 1;
        speak();
        nodes.push({ type: "control", text: nameOf(hidden) });
      } else {
        unnamed += 1;
        said += UNNAMED;
      }
    }
  }
  endRun();
  said += text.slice(from);
  speak();
  count(unnamed);
  left.marks = AT_END.exec(text.slice(-2 * MARKS_MAX))?.[0].length ?? 0;
  return nodes;
}

/**
 * @param {string} text
 * @returns {string} the same where only a string can stand, as in the title of a window
 */
export function shownText(text) {
  return text.search(ODD) < 0 ? text : shown(text).map(said).join("");
}

/** @param {ShownNode} node */
const said = (node) => (node.type === "more" ? `(+${number(node.count)})` : node.text);
