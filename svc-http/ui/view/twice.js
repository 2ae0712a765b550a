// Confirmation by a second press: the first arms the action, the second within a few seconds confirms it.
//
// Guarantees: buttons, menus, keys and the palette all use this module; an armed action is disarmed after a
// while. Not here: which actions need a second press, which their definitions say.

/** Time that an action stays armed, in ms. */
export const ARMED = 5_000;

/**
 * @param {boolean} isTwice Whether a second press is needed.
 * @param {(isArmed: boolean) => void} show Called when the action is armed or disarmed.
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
    /** @returns {boolean} Whether the action should run. */
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
