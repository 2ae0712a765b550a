// A long text of which the beginning is shown until somebody wants all of it.
//
// Promises: the button that does it keeps its place and the focus, whatever is drawn above it. Leaves out: how
// the text looks.

import { isLong, linesIn } from "../pure/fold.js";
import { markdown as say } from "../strings/en.js";
import { button, setAttr, setText } from "./node.js";

/**
 * @param {HTMLElement} node Where the text stands.
 * @param {string} text
 * @param {(isWhole: boolean) => (Node | string)[]} draw
 * @returns {() => void} Draws it anew.
 */
export function foldable(node, text, draw) {
  if (!isLong(text)) {
    const whole = () => node.replaceChildren(...draw(true));
    whole();
    return whole;
  }
  let isWhole = false;
  const press = button("", () => ((isWhole = !isWhole), redraw()), { class: "link fold" });
  node.replaceChildren(press);

  function redraw() {
    setAttr(press, "aria-expanded", String(isWhole));
    setText(press, isWhole ? say.showLess : say.showAll(linesIn(text)));
    for (const child of [...node.childNodes]) if (child !== press) child.remove();
    press.before(...draw(isWhole));
  }
  redraw();
  return redraw;
}
