// Completes a mention while the user types, with a list of matches below the field.
//
// Guarantees: the list works with arrows, Enter, Escape and a pointer, and is announced to screen readers;
// while it is hidden, keys have their usual effect. Not here: who can be mentioned.

import { mentionAt, writtenHandle } from "../pure/handles.js";
import { h, setAttr, show, words } from "./node.js";

/** @typedef {{id: string, text: string, label: string}} Found */

let count = 0;

/**
 * @param {HTMLTextAreaElement} input
 * @param {{label: string, find: (text: string) => Found[]}} how
 */
export function createMentions(input, { label, find }) {
  const id = `mentions-${(count += 1)}`;
  const list = h("ul.choices", { id, role: "listbox", "aria-label": label, hidden: true });
  setAttr(input, "aria-controls", id);
  setAttr(input, "aria-autocomplete", "list");
  /** @type {Found[]} */
  let found = [];
  let at = 0;

  function look() {
    const mention = mentionAt(input.value, input.selectionStart ?? 0);
    found = mention ? find(mention.word) : [];
    at = 0;
    draw();
  }

  function draw() {
    show(list, found.length > 0);
    list.replaceChildren(
      ...found.map((one, index) => {
        const props = {
          role: "option",
          id: `${id}-${index}`,
          "aria-selected": index === at ? "true" : "false",
        };
        const node = h("li", props, words(one.label));
        node.addEventListener("pointerdown", (event) => (event.preventDefault(), take(one)));
        return node;
      }),
    );
    setAttr(input, "aria-activedescendant", found.length ? `${id}-${at}` : null);
  }

  /** @param {Found} one */
  function take({ text }) {
    const mention = mentionAt(input.value, input.selectionStart ?? 0);
    if (!mention) return;
    input.setRangeText(`@${writtenHandle(text)} `, mention.start, mention.end, "end");
    input.dispatchEvent(new Event("input", { bubbles: true }));
    found = [];
    draw();
  }

  input.addEventListener("input", look);
  input.addEventListener("blur", () => ((found = []), draw()));
  input.addEventListener("keydown", (event) => {
    if (found.length === 0) return;
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step) at = (at + step + found.length) % found.length;
    else if ((event.key === "Enter" || event.key === "Tab") && !event.ctrlKey && !event.metaKey)
      take(/** @type {Found} */ (found[at]));
    else if (event.key === "Escape") found = [];
    else return;
    event.preventDefault();
    event.stopPropagation();
    draw();
  });
  return { list };
}
