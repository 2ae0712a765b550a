// Keeps what is under the pointer, or has the focus, where it is while what is around it is drawn.
//
// Promises: by as much as what is above it grows or shrinks the list is scrolled; where that does not go so far, room
// is left above or below until the pointer is gone. Leaves out: what arrives, which waits (held.js).

/**
 * @param {HTMLElement} area What is drawn.
 * @param {() => void} draw
 */
export function steadily(area, draw) {
  const under = area.querySelectorAll(":hover");
  // Who reads elsewhere is not at what has the focus.
  const held = under.length ? [...under] : [...area.querySelectorAll(":focus-within")].filter(isInSight);
  const tops = held.map(topOf);
  const { style } = area;
  const free = () => void (style.paddingTop = style.paddingBottom = "");
  if (held.length === 0) free();
  draw();
  // What was drawn anew, or is hidden now, is nowhere any more: then its row stays.
  const at = isThere(held.at(-1)) ? held.length - 1 : 0;
  const node = held[at];
  if (!node || !isThere(node)) return;
  const moved = () => topOf(node) - /** @type {number} */ (tops[at]);
  if (Math.abs(moved()) < 1) return;
  const scroller = scrollerOf(area);
  scroller.scrollTop += moved();
  const left = moved();
  if (Math.abs(left) < 1) return;
  if (left < 0) style.paddingTop = `${(parseFloat(style.paddingTop) || 0) - left}px`;
  else {
    const { clientHeight, scrollTop } = scroller;
    style.paddingBottom = `${clientHeight}px`;
    style.paddingBottom = `${2 * clientHeight + scrollTop + left - scroller.scrollHeight}px`;
    scroller.scrollTop += left;
  }
  area.addEventListener("pointerleave", free, { once: true });
}

/** @param {Element | undefined} node */
const isThere = (node) => node?.isConnected && node.getClientRects().length > 0;

/** @param {Element} node */
function isInSight(node) {
  const { top, bottom } = node.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

/** @param {Element} node */
const topOf = (node) => node.getBoundingClientRect().top;

/** @param {HTMLElement} area */
function scrollerOf(area) {
  for (let node = /** @type {HTMLElement | null} */ (area); node; node = node.parentElement)
    if (/auto|scroll/.test(getComputedStyle(node).overflowY)) return node;
  return /** @type {Element} */ (document.scrollingElement);
}
