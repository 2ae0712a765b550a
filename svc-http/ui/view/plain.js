// Somebody's words that are no markup: a title, a name. What is not seen, or would turn the text around, is
// shown.
//
// Leaves out: Markdown (tree.js).

import { shownText } from "../pure/shown.js";
import { h } from "./node.js";
import { shownNodes } from "./shown.js";

/**
 * Text of many lines as it stands, or a value as JSON.
 *
 * @param {unknown} value
 * @param {Record<string, string | number | null | undefined>} [props] `dir`: that of what is no code is its own, "auto".
 */
export function verbatim(value, props = {}) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return h("pre", { dir: "ltr", tabindex: 0, ...props }, shownText(text));
}

/** @param {string} text */
export function plainWords(text) {
  return h("bdi", { dir: "auto" }, ...shownNodes(text));
}
