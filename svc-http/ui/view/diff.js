// A diff: its lines as they stand, or on a wide screen what was taken out beside what was put in.
//
// Promises: each line has its sign, so that none is told by its colour; the width of the page may change. Leaves
// out: what of the diff is shown at first.

import { linesOf, rowsOf } from "../pure/diff.js";
import { newLeft } from "../pure/shown.js";
import { markdown as say } from "../strings/en.js";
import { h, setAttr } from "./node.js";
import { shownNodes } from "./shown.js";

/** @typedef {import("../pure/diff.js").DiffLine} DiffLine */

const WIDE = matchMedia("(min-width: 1200px)");
/** How each diff that is on the page is drawn anew. @type {WeakMap<Element, () => void>} */
const drawn = new WeakMap();
WIDE.addEventListener("change", () => {
  for (const node of document.querySelectorAll("[data-diff]")) drawn.get(node)?.();
});

/** @param {string} text */
export function diffNode(text) {
  const node = h("div.diff", { role: "group", "aria-label": say.diff, dir: "ltr", tabindex: 0 });
  const { lines, rest } = linesOf(text);
  const draw = () => {
    setAttr(node, "data-diff", WIDE.matches ? "split" : "unified");
    const left = newLeft();
    const said = (/** @type {DiffLine | null} */ line) => (line ? shownNodes(line.text, left) : []);
    node.replaceChildren(WIDE.matches ? split(lines, said) : unified(lines, said));
    if (rest) node.append(h("pre", ...shownNodes(rest, left)));
  };
  drawn.set(node, draw);
  draw();
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
