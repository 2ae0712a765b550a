// Text in which what is not seen, or would turn it around, is named, as nodes.
//
// Promises: a very long line is laid out in pieces, for if directions alternate in it, all of it at once takes a time
// that grows with its square. Leaves out: which characters those are, and how many are named (pure/shown.js).

import { shown } from "../pure/shown.js";
import { markdown as say, names } from "../strings/en.js";
import { h } from "./node.js";

/**
 * @param {string} text
 * @param {import("../pure/shown.js").Left} [left]
 * @returns {(Node | string)[]}
 */
export function shownNodes(text, left) {
  return shown(text, left).flatMap((node) => {
    if (node.type === "text") return pieces(node.text);
    if (node.type === "more") return h("span.control", say.more(node.count));
    return h("span.control", { title: names.control(node.text) }, node.text);
  });
}

const LONG = /^(.{8001,})/m;
const PIECE = /.{1,1000}/gu;

/** @param {string} text @returns {(Node | string)[]} */
const pieces = (text) =>
  text
    .split(LONG)
    .flatMap(/** @returns {(Node | string)[]} */ (part, at) => (at % 2 ? (part.match(PIECE) ?? []).map((piece) => h("span.piece", piece)) : [part]));
