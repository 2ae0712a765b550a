// Somebody's words that are no markup: a title, a name. What is not seen, or would turn the text around, is
// shown.
//
// Leaves out: Markdown (marked.js).

import { shown, shownText } from "../pure/shown.js";
import { h } from "./node.js";

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

/**
 * @param {string} text
 * @param {{control: (name: string) => string}} names What a control is called.
 */
export function plainWords(text, names) {
  const nodes = shown(text).map((/** @type {any} */ node) =>
    node.type === "control" ? h("span.control", { title: names.control(node.text) }, node.text) : node.text,
  );
  return h("bdi", { dir: "auto" }, ...nodes);
}
