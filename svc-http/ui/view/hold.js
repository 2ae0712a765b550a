// Detects whether an area of the page is in use, or may move.
//
// Guarantees: an area is held while a pointer or a finger is on it, the focus is in it, or it was scrolled in
// the last 2 s. The code queries elements, not positions, since a page also scrolls under a resting pointer,
// and polls, since not every end of a hold is an event. Not here: waiting content.

const AFTER_SCROLL = 2_000;
const LOOK_EVERY = 250;

/**
 * Time of the last scroll of each target. The listener outlives the areas and does not refer to them.
 *
 * @type {WeakMap<EventTarget, number>}
 */
const scrolled = new WeakMap();

/** @param {EventTarget} scroller */
function watch(scroller) {
  if (scrolled.has(scroller)) return;
  scrolled.set(scroller, -1);
  scroller.addEventListener("scroll", () => scrolled.set(scroller, performance.now()), { passive: true });
}

/**
 * @param {HTMLElement} area
 * @param {EventTarget} [scroller] Element that scrolls the area, if another.
 */
export function createHold(area, scroller = area) {
  watch(scroller);
  const begun = performance.now();
  let fingers = 0;
  const canHover = matchMedia("(hover: hover)");
  area.addEventListener("touchstart", () => (fingers += 1), { passive: true });
  for (const end of ["touchend", "touchcancel"]) {
    area.addEventListener(end, () => (fingers = Math.max(0, fingers - 1)), { passive: true });
  }
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const hasPointer = () => fingers > 0 || (canHover.matches && area.matches(":hover"));
  function isHeld() {
    const hasFocus = area.contains(document.activeElement) && document.hasFocus();
    const at = scrolled.get(scroller) ?? -1;
    return hasPointer() || hasFocus || (at >= begun && performance.now() - at < AFTER_SCROLL);
  }
  const drop = () => clearTimeout(timer);
  return {
    /** Returns whether a pointer or a finger is on the area. */
    hasPointer,
    isHeld,
    /**
     * Runs a function once the area is no longer held, instead of one that waited before.
     *
     * @param {() => void} run
     * @param {() => boolean} [holds] Replaces the condition for being held.
     */
    whenFree(run, holds = isHeld) {
      const look = () => {
        timer = setTimeout(() => (holds() ? look() : run()), LOOK_EVERY);
      };
      drop();
      look();
    },
    /** Cancels the waiting function. */
    drop,
  };
}
