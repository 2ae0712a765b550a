// Long text that shows its beginning until the user unfolds it.
//
// Guarantees: the button keeps its node and the focus when the text is redrawn; an unfolded text stays
// unfolded. Not here: formatting the text.

import { headFor, linesIn } from "../pure/fold.js";
import { markdown as say } from "../strings/en.js";
import { button, setAttr, setChildren, setText } from "./node.js";

let count = 0;

/**
 * @param {HTMLElement} node Element that contains the text.
 * @param {string} text
 * @param {(head: import("../pure/fold.js").Head | null) => (Node | string)[]} draw `head`: length of the
 * beginning to draw; null for all of the text.
 * @param {import("../pure/fold.js").Room | null} [room] Room that texts shown together share; null disables
 * folding.
 * @returns {() => void} Draws the text again.
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
