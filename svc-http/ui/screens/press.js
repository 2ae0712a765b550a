// Keys of actions that press the button of the action, so that a key arms what a press arms.
//
// Guarantees: of several buttons, the one next to the focus is pressed; without one, the key focuses the
// first and presses nothing; a disabled button shows the reason. Not here: the list of keys.

import { actions } from "../actions.js";
import { acting as say, actionNames } from "../strings/en.js";

/** @typedef {import("../world.js").World} World */

/** Actions with a button next to their entity. */
const keyed = actions.filter(({ key, on }) => key && on !== "workspace" && on !== "thread");

/**
 * @param {World} world
 * @param {() => Element | null} within Returns the element that contains the buttons.
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

/** Returns the approval that contains a button, since a screen can show several. @param {Element} button */
const partOf = (button) => button.closest("[data-gate]");
