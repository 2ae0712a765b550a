// Modal dialog with a heading, closed by Escape, by its button, or by the code that opened it.
//
// Guarantees: the focus stays inside and returns afterwards; a dialog without a close button ignores Escape;
// a press beside a dialog with a form does not close it. Not here: the content.

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
 * }} what Without `closeLabel`, only the code that opened the dialog closes it.
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
    // A browser may close the dialog at the second Escape although the first was cancelled.
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
