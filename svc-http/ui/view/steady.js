// Keeps the elements under the pointer, or with the focus, in place while their surroundings are drawn.
//
// Guarantees: the list scrolls by as much as the content above grows or shrinks; beyond the scroll range,
// padding is added until the pointer leaves. Not here: new rows, which wait (held.js).

/**
 * @param {HTMLElement} area Element that is drawn.
 * @param {() => void} draw
 */
export function steadily(area, draw) {
  const under = area.querySelectorAll(":hover");
  // A focused element out of view does not count, since the user reads elsewhere.
  const held = under.length ? [...under] : [...area.querySelectorAll(":focus-within")].filter(isInSight);
  const tops = held.map(topOf);
  const { style } = area;
  const free = () => void (style.paddingTop = style.paddingBottom = "");
  if (held.length === 0) free();
  draw();
  // If the element was replaced or hidden, its row stays in place instead.
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
