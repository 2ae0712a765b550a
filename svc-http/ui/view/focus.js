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
    if (found instanceof HTMLElement && found !== document.body)
      found.focus({ preventScroll: found === had });
    else focusHeading(document);
  };
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
