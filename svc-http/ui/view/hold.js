// Tells whether something may move on the page now, or somebody is at it.
//
// Promises: an area is held while a pointer rests on it, the focus is in it, a finger is on it, or it was
// scrolled in the last 2 s. It is asked of the elements, not of positions, since a page also scrolls under a
// pointer that rests; and of time and again, since elements do not tell all of that. Leaves out: what waits meanwhile.

const AFTER_SCROLL = 2_000;
const LOOK_EVERY = 250;

/** When each was scrolled last. What listens to that outlives the areas, and knows none of them. @type {WeakMap<EventTarget, number>} */
const scrolled = new WeakMap();

/** @param {EventTarget} scroller */
function watch(scroller) {
  if (scrolled.has(scroller)) return;
  scrolled.set(scroller, -1);
  scroller.addEventListener("scroll", () => scrolled.set(scroller, performance.now()), { passive: true });
}

/**
 * @param {HTMLElement} area
 * @param {EventTarget} [scroller] What scrolls it, if not itself.
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
    /** Whether a pointer rests on it, or a finger. */
    hasPointer,
    isHeld,
    /**
     * Runs something once the area is not held any more, in place of what waited for that before.
     *
     * @param {() => void} run
     * @param {() => boolean} [holds] What of it counts.
     */
    whenFree(run, holds = isHeld) {
      const look = () => {
        timer = setTimeout(() => (holds() ? look() : run()), LOOK_EVERY);
      };
      drop();
      look();
    },
    /** Nothing waits any more. */
    drop,
  };
}
