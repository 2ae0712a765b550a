// Diff: unified, or with removed lines beside added ones if there is room.
//
// Guarantees: each line keeps its sign, so colour is not the only mark; the layout follows the width. Not
// here: how much of the diff is shown at first.

import { linesOf, rowsOf } from "../pure/diff.js";
import { markdown as say } from "../strings/en.js";
import { h } from "./node.js";
import { shownNodes } from "./shown.js";

/** @typedef {import("../pure/diff.js").DiffLine} DiffLine */

/**
 * @param {string} text
 * @param {import("../pure/shown.js").Left} left Remaining limits of the body.
 */
export function diffNode(text, left) {
  const node = h("div.diff", { role: "group", "aria-label": say.diff, dir: "ltr", tabindex: 0 });
  const { lines, rest } = linesOf(text, left.rows);
  left.rows -= lines.length;
  const before = { ...left };
  const draw = () => {
    // The width is known only once the node is on the page.
    const isSplit = innerWidth >= 1200 && (!node.isConnected || node.clientWidth >= 560);
    const { dataset } = node;
    if (dataset.diff === (dataset.diff = isSplit ? "split" : "unified")) return;
    Object.assign(left, before);
    const said = (/** @type {DiffLine | null} */ line) => {
      left.line = 0;
      return line ? shownNodes(line.text, left) : [];
    };
    node.replaceChildren((isSplit ? split : unified)(lines, said));
    left.line = 0;
    if (rest) node.append(h("pre", ...shownNodes(rest, left)));
  };
  draw();
  new ResizeObserver(draw).observe(node);
  return node;
}

/** @param {DiffLine[]} lines @param {(line: DiffLine | null) => (Node | string)[]} said */
function unified(lines, said) {
  const nodes = lines.map((line) => h("span.diff-line", { "data-line": line.kind }, ...said(line), "\n"));
  return h("pre", ...nodes);
}

/** @param {DiffLine[]} lines @param {(line: DiffLine | null) => (Node | string)[]} said */
function split(lines, said) {
  const cell = (/** @type {DiffLine | null} */ line) => h("td", { "data-line": line?.kind ?? "none" }, ...said(line));
  const rows = rowsOf(lines).map((row) =>
    "both" in row
      ? h("tr", h("td", { colspan: 2, "data-line": row.both.kind }, ...said(row.both)))
      : h("tr", cell(row.left), cell(row.right)),
  );
  const head = h("tr", h("th", { scope: "col" }, say.before), h("th", { scope: "col" }, say.after));
  return h("table", h("thead", head), h("tbody", ...rows));
}
