// Somebody's words that are no markup: a title, a name. What is not seen, or would turn the text around, is
// shown.
//
// Leaves out: Markdown (marked.js).

import { shown } from "../pure/shown.js";
import { h } from "./node.js";

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
