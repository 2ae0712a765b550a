// Text in which what is not seen, or would turn it around, is named, as nodes.
//
// Leaves out: which characters those are, and how many are named (pure/shown.js).

import { shown } from "../pure/shown.js";
import { markdown as say, names } from "../strings/en.js";
import { h } from "./node.js";

/**
 * @param {string} text
 * @param {import("../pure/shown.js").Left} [left]
 * @returns {(Node | string)[]}
 */
export function shownNodes(text, left) {
  return shown(text, left).map((node) => {
    if (node.type === "text") return node.text;
    if (node.type === "more") return h("span.control", say.more(node.count));
    return h("span.control", { title: names.control(node.text) }, node.text);
  });
}
