// Plain text of a member, such as a title, with invisible characters and direction controls made visible.
//
// Not here: Markdown (tree.js).

import { shownText } from "../pure/shown.js";
import { h } from "./node.js";
import { shownNodes } from "./shown.js";

/**
 * Returns text of several lines, unchanged, or a value as JSON.
 *
 * @param {unknown} value
 * @param {Record<string, string | number | null | undefined>} [props] `dir`: "auto" for text that is not
 * code.
 */
export function verbatim(value, props = {}) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return h("pre", { dir: "ltr", tabindex: 0, ...props }, shownText(text));
}

/** @param {string} text */
export function plainWords(text) {
  return h("bdi", { dir: "auto" }, ...shownNodes(text));
}
