// Restores the focus.
//
// Guarantees: after a dialog closes, or a screen returns, the focus is on the same element, on its
// replacement, or on the heading, but never lost to the top of the page. Not here: moving the focus by keys.

/** Data attributes that identify an entity, whichever node represents it. */
const NAMES = ["thread", "message", "member", "gate", "event", "action", "key"];

/**
 * Remembers the focused element.
 *
 * @param {Document} document
 * @returns {() => void} Gives the focus back to the element.
 */
export function rememberFocus(document) {
  const had = document.activeElement;
  const selector = had instanceof HTMLElement ? selectorOf(had) : null;
  return () => {
    const found =
      had instanceof HTMLElement && had.isConnected ? had : selector && document.querySelector(selector);
    if (found instanceof HTMLElement) found.focus({ preventScroll: found === had });
    // The pressed button may be disabled since.
    if (document.activeElement === document.body) focusAbove(found || document.body);
  };
}

/**
 * Focuses the title above an element that cannot have the focus: of its card, panel, dialog or screen.
 *
 * @param {Element} node
 */
export function focusAbove(node) {
  const titles = node.closest("dialog, main")?.querySelectorAll("h1, h2, a.title") ?? [];
  const isAbove = (/** @type {Element} */ one) =>
    (node.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_PRECEDING) !== 0 && one.checkVisibility();
  const title = [...titles].findLast(isAbove);
  const stop = title?.closest("summary") ?? title;
  if (!(stop instanceof HTMLElement)) return focusHeading(document);
  if (stop.matches("h1, h2")) stop.tabIndex = -1;
  stop.focus({ preventScroll: true });
}

/** @param {Document} document */
export function focusHeading(document) {
  const heading = document.querySelector("main h1");
  if (!(heading instanceof HTMLElement)) return;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}

/** Leaves the focused field and keeps its text. @returns {boolean} Whether a field had the focus. */
export function leaveField() {
  const at = document.activeElement;
  if (!(at instanceof HTMLElement) || !at.matches("input, textarea, select")) return false;
  at.blur();
  return true;
}

/** @param {HTMLElement} node */
function selectorOf(node) {
  for (const name of NAMES) {
    const value = node.dataset[name];
    if (value !== undefined) return `main [data-${name}="${CSS.escape(value)}"]`;
  }
  return node.id ? `#${CSS.escape(node.id)}` : null;
}
