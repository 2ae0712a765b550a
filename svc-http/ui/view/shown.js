// Text as nodes, in which invisible characters and direction controls are named.
//
// Guarantees: a very long line, in however many nodes, is laid out in pieces, because layout of alternating
// directions takes quadratic time. Not here: which characters these are, and how many are named
// (pure/shown.js).

import { newLeft, shown } from "../pure/shown.js";
import { markdown as say, names } from "../strings/en.js";
import { h } from "./node.js";

/** Maximum characters of a line that is laid out as one piece. */
const LINE = 8_000;
const LONG = /^(.{8001,})/m;
const PIECE = /.{1,1000}/gu;

/**
 * @param {string} text
 * @param {import("../pure/shown.js").Left} [left] Remaining limits of the body that contains the text.
 * @returns {(Node | string)[]}
 */
export function shownNodes(text, left = newLeft()) {
  return shown(text, left).flatMap((node) => {
    if (node.type === "text") return pieces(node.text, left);
    if (node.type === "more") return h("span.control", say.more(node.count));
    return h("span.control", { title: names.control(node.text) }, node.text);
  });
}

/** @param {string} text @param {import("../pure/shown.js").Left} left @returns {(Node | string)[]} */
function pieces(text, left) {
  const end = text.search(/\n|$/);
  const first = text.slice(0, end);
  left.line += end;
  const nodes = left.line > LINE ? cut(first) : [first];
  const rest = text.slice(end);
  if (!rest) return nodes;
  left.line = rest.length - rest.lastIndexOf("\n") - 1;
  return [...nodes, ...rest.split(LONG).flatMap((part, at) => (at % 2 ? cut(part) : part))];
}

/** @param {string} line @returns {(Node | string)[]} */
const cut = (line) => (line.match(PIECE) ?? []).map((piece) => h("span.piece", piece));
