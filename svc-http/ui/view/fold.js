// A long text of which the beginning is shown until somebody wants all of it.
//
// Promises: the button that does it keeps its place and the focus, whatever is drawn above it; what was unfolded stays so
// when another text is drawn there. Leaves out: how the text looks.

import { headFor, linesIn } from "../pure/fold.js";
import { markdown as say } from "../strings/en.js";
import { button, setAttr, setChildren, setText } from "./node.js";

let count = 0;

/**
 * @param {HTMLElement} node Where the text stands.
 * @param {string} text
 * @param {(head: import("../pure/fold.js").Head | null) => (Node | string)[]} draw `head`: how much of it; null: all.
 * @param {import("../pure/fold.js").Room | null} [room] Of the texts that stand together; null: nothing is folded.
 * @returns {() => void} Draws it anew.
 */
export function foldable(node, text, draw, room) {
  const head = room === null ? null : headFor(text, room);
  let isWhole = !head || node.lastElementChild?.getAttribute("aria-expanded") === "true";
  const press =
    head &&
    button("", () => ((isWhole = !isWhole), redraw()), {
      class: "link fold",
      "aria-controls": (node.id ||= `fold-${(count += 1)}`),
    });

  function redraw() {
    if (press) {
      setAttr(press, "aria-expanded", String(isWhole));
      setText(press, isWhole ? say.showLess : say.showAll(linesIn(text)));
    }
    setChildren(node, [...draw(isWhole ? null : head), press]);
  }
  redraw();
  return redraw;
}
