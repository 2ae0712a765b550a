// Where the focus was, and how it comes back there.
//
// Promises: after something closes, or a screen comes back, the focus is on what had it, or on what stands
// for the same now, or on the heading; never lost to the top of the page. Leaves out: moving it by keys.

/** The attributes that name what an element is about, whatever node stands for it. */
const NAMES = ["thread", "message", "member", "gate", "event", "action", "key"];

/**
 * Remembers what has the focus.
 *
 * @param {Document} document
 * @returns {() => void} Gives it back.
 */
export function rememberFocus(document) {
  const had = document.activeElement;
  const selector = had instanceof HTMLElement ? selectorOf(had) : null;
  return () => {
    const found =
      had instanceof HTMLElement && had.isConnected ? had : selector && document.querySelector(selector);
    if (found instanceof HTMLElement) found.focus({ preventScroll: found === had });
    // What was pressed may be disabled by now.
    if (document.activeElement === document.body) focusAbove(found || document.body);
  };
}

/**
 * Focuses what stands above something that cannot have the focus: the title of its card, panel, dialog or screen.
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

/** Leaves the field that has the focus, with what is typed in it. @returns {boolean} Whether there was one. */
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
