// A dialog over the page: modal, with a heading, closed by Escape, by its button, or by what opened it.
//
// Promises: the focus is kept inside and goes back to where it was; one that must not be closed by Escape is
// not, and one in which something is filled in is not closed by a press beside it. Leaves out: what is in it.

import { button, h, words } from "./node.js";
import { rememberFocus } from "./focus.js";

/**
 * @param {{
 *   title: string,
 *   closeLabel?: string,
 *   body: (Node | string)[],
 *   isWide?: boolean,
 *   name?: string,
 *   onClose?: () => void,
 * }} what Without `closeLabel` only what opened the dialog closes it.
 */
export function openDialog({ title, closeLabel, body, isWide = false, name, onClose }) {
  const restore = rememberFocus(document);
  const id = `dialog-${(count += 1)}`;
  const heading = h("h2", { id }, words(title));
  const head = h(
    "div.head",
    heading,
    closeLabel ? button(closeLabel, () => close(), { class: "plain" }) : null,
  );
  const content = h("div.body", ...body);
  const node = h(
    "dialog",
    { "aria-labelledby": id, class: isWide ? "wide" : null, "data-dialog": name },
    head,
    content,
  );
  let isOpen = true;
  node.addEventListener("cancel", (event) => closeLabel || event.preventDefault());
  node.addEventListener("close", () => {
    // A browser may close a dialog at the second Escape whatever was said about the first.
    if (isOpen && !closeLabel) return node.showModal();
    isOpen = false;
    node.remove();
    restore();
    onClose?.();
  });
  node.addEventListener("pointerdown", (event) => {
    if (event.target === node && closeLabel && !content.querySelector("form")) close();
  });
  document.body.append(node);
  node.showModal();

  function close() {
    if (!isOpen) return;
    isOpen = false;
    node.close();
  }

  return {
    node,
    content,
    close,
    setTitle: (/** @type {string} */ text) => heading.replaceChildren(words(text)),
  };
}

let count = 0;
