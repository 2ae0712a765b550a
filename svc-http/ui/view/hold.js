// Tells whether something may move on the page now, or somebody is at it.
//
// Promises: an area is held while a pointer rests on it, the focus is in it, a finger is on it, or it was
// scrolled in the last 2 s. It is asked of the elements, not of positions, since a page also scrolls under a
// pointer that rests. Leaves out: what waits meanwhile.

const AFTER_SCROLL = 2_000;

/**
 * @param {HTMLElement} area
 * @param {EventTarget} [scroller] What scrolls it, if not itself.
 */
export function createHold(area, scroller = area) {
  let scrolledAt = -AFTER_SCROLL;
  let fingers = 0;
  const canHover = matchMedia("(hover: hover)");
  scroller.addEventListener("scroll", () => (scrolledAt = performance.now()), { passive: true });
  area.addEventListener("touchstart", () => (fingers += 1), { passive: true });
  for (const end of ["touchend", "touchcancel"]) {
    area.addEventListener(end, () => (fingers = Math.max(0, fingers - 1)), { passive: true });
  }
  const hasPointer = () => fingers > 0 || (canHover.matches && area.matches(":hover"));
  return {
    /** Whether a pointer rests on it, or a finger. */
    hasPointer,
    isHeld() {
      const hasFocus = area.contains(document.activeElement) && document.hasFocus();
      return hasPointer() || hasFocus || performance.now() - scrolledAt < AFTER_SCROLL;
    },
  };
}
