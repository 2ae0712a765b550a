// The key of an action as a press on its button, so that what a press arms is armed by a key.
//
// Promises: of several buttons the one that is where the focus is counts; where it is at none of them, the key
// leads to the first and presses nothing; a button that cannot be used says why. Leaves out: which keys there
// are.

import { actions } from "../actions.js";
import { acting as say, actionNames } from "../strings/en.js";

/** @typedef {import("../world.js").World} World */

/** The actions that have a button where their thing stands. */
const keyed = actions.filter(({ key, on }) => key && on !== "workspace" && on !== "thread");

/**
 * @param {World} world
 * @param {() => Element | null} within Where the buttons are.
 * @returns {import("../view/keys.js").Keys}
 */
export const pressKeys = (world, within) =>
  Object.fromEntries(keyed.map(({ key, id }) => [key, () => press(world, within(), id)]));

/**
 * @param {World} world
 * @param {Element | null} root
 * @param {string} id
 */
export function press(world, root, id) {
  const all = [...(root?.querySelectorAll(`[data-of="${CSS.escape(id)}"]`) ?? [])];
  const found = all.filter((one) => one instanceof HTMLElement && one.checkVisibility());
  const here = found.find((one) => partOf(one)?.contains(document.activeElement));
  const target = here ?? found[0];
  if (!(target instanceof HTMLElement)) return false;
  target.focus();
  const why = target.getAttribute("aria-disabled") === "true" ? target.getAttribute("aria-description") : null;
  if (why) world.tell(say.cannot(actionNames[id] ?? id, why));
  if (here || found.length === 1) target.click();
  return true;
}

/** What a button stands in, of those that may be several. @param {Element} button */
const partOf = (button) => button.closest("[data-gate]");
