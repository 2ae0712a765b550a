// Turns invisible characters and direction controls in text of other members into nodes that name them.
//
// Guarantees: in a long run, the first are named and the others counted, and so are marks on one letter; any
// text becomes few nodes, each drawn quickly.

import { number } from "./format.js";

/** @typedef {{type: "text" | "control", text: string} | {type: "more", count: number}} ShownNode */
/**
 * @typedef {{names: number, rows: number, marks: number, line: number}} Left Remaining limits of one body:
 * hidden characters to name and diff lines to parse; `marks`: number of marks on its last letter; `line`:
 * length of its last line so far.
 */

/**
 * Matches control characters, direction marks, embeddings and isolates, characters without width, tags and
 * selectors that can hide words, and lone surrogates.
 *
 * Joiners of emoji and of scripts that need them are text.
 */
const HIDDEN =
  "(?![\\t\\n\\u200c\\u200d\\ufe00-\\ufe0f])[\\p{Cc}\\p{DI}]|[\\u2028\\u2029\\u2800\\ufff9-\\ufffb\\u{13430}-\\u{1343f}\\p{Cs}]";
/** Maximum marks that are drawn on one letter, including the joiners between them. */
const MARKS_MAX = 8;
const ON_LETTER = `(?!${HIDDEN})[\\p{M}\\u200c\\u200d]`;
const ODD = new RegExp(`(${HIDDEN})|(?:${ON_LETTER}){${MARKS_MAX + 1},}`, "gu");
const AT_END = new RegExp(`(?:${ON_LETTER}){0,${MARKS_MAX}}$`, "u");

/** Maximum hidden characters that are named per run, and per body. */
const RUN_MAX = 100;
const NAMES_MAX = 500;
/** Maximum diff lines that are parsed per body. */
const ROWS_MAX = 2000;
/** Replaces a hidden character that is not named. */
const UNNAMED = "\ufffd";

/** @returns {Left} */
export const newLeft = () => ({ names: NAMES_MAX, rows: ROWS_MAX, marks: 0, line: 0 });

/** @param {string} char */
const nameOf = (char) => `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;

/**
 * @param {string} text plain text, such as a title or a name
 * @param {Left} [left] limits of the body that contains the text
 * @returns {ShownNode[]}
 */
export function shown(text, left = newLeft()) {
  // Marks at the start continue those at the end of the preceding text.
  const before = Math.min(left.marks, MARKS_MAX);
  text = "\u0301".repeat(before) + text;
  /** @type {ShownNode[]} */
  const nodes = [];
  let said = "";
  // Run that ends where the next match may begin: its length, and the number of its counted characters.
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
 * @returns {string} the same content as a string, for example for a window title
 */
export function shownText(text) {
  return text.search(ODD) < 0 ? text : shown(text).map(said).join("");
}

/** @param {ShownNode} node */
const said = (node) => (node.type === "more" ? `(+${number(node.count)})` : node.text);
