// Block of code, with its language and a copy button.
//
// Guarantees: white space is kept. Not here: syntax colours.

import { markdown as say } from "../strings/en.js";
import { newLeft, shownText } from "../pure/shown.js";
import { copyButton } from "./copy.js";
import { diffNode } from "./diff.js";
import { h } from "./node.js";
import { shownNodes } from "./shown.js";

const DIFF = /^(?:diff|patch)$/i;

/**
 * @param {string} text
 * @param {string} language
 * @param {string} whole Complete code to copy, including what is not shown.
 * @param {import("../pure/shown.js").Left} [left] Remaining limits of the body.
 * @param {string} [info] Text beside the opening fence.
 */
export function codeNode(text, language, whole, left = newLeft(), info = language) {
  const name = shownText(language.slice(0, 50));
  const body = left.rows && DIFF.test(language)
    ? diffNode(text, left)
    : h("pre", { dir: "ltr", tabindex: 0, "data-language": name }, ...shownNodes(text, left));
  const copy = copyButton(whole, { class: "link small", "data-copy": name || say.code });
  left.line = 0;
  const title = h("span", ...(info ? shownNodes(info, left) : [say.code]));
  return h("div.code", h("div.row.small.quiet", title, h("span.end", copy)), body);
}
