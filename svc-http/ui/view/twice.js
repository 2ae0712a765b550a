// A press that has to be made twice: the first arms, the second within a few seconds counts.
//
// Promises: it is the one place that knows how, for buttons, menus, keys and the palette; what was armed and
// left alone is disarmed. Leaves out: what is pressed twice, which the rows of the actions say.

/** How long what is armed stays so. */
export const ARMED = 5_000;

/**
 * @param {boolean} isTwice Whether one press is not enough.
 * @param {(isArmed: boolean) => void} show Called when that has changed.
 */
export function createTwice(isTwice, show) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let armed;

  function disarm() {
    if (armed === undefined) return;
    clearTimeout(armed);
    armed = undefined;
    show(false);
  }

  return {
    /** @returns {boolean} Whether the press counts. */
    press() {
      if (isTwice && armed === undefined) {
        armed = setTimeout(disarm, ARMED);
        show(true);
        return false;
      }
      disarm();
      return true;
    },
    isArmed: () => armed !== undefined,
    disarm,
  };
}
