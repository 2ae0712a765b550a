// Keys of a list: moving between rows, preview, reply, and the actions of a row.
//
// Guarantees: the key of an action presses its button in the focused row, so it arms the action as a press
// does. Not here: other keys of a screen.

import { beginById } from "../act.js";
import { actions } from "../actions.js";
import { openPeek } from "../later.js";
import { press, pressKeys } from "./press.js";

const onThreads = actions.filter(({ key, on }) => key && on === "thread");

/**
 * @param {import("../world.js").World} world
 * @param {{along: (step: 1 | -1) => boolean, here: () => string | null, row: () => Element | null}} list
 * @param {() => string | null} threadId Returns the task of the focused row.
 * @returns {import("../view/keys.js").Keys}
 */
export function listKeys(world, list, threadId) {
  /** @param {(id: string) => void} act */
  function onThread(act) {
    const id = threadId();
    if (!id) return false;
    act(id);
    return true;
  }

  function reply() {
    const title = list.row()?.querySelector("a.title");
    if (!(title instanceof HTMLAnchorElement)) return false;
    const address = new URL(title.href);
    if (!address.hash) address.hash = "say";
    world.go(address.href);
    return true;
  }

  return {
    ...Object.fromEntries(onThreads.map(({ key, id }) => [key, () => press(world, list.row(), id)])),
    ...pressKeys(world, list.row),
    ...moveKeys(list),
    Space: () => onThread((id) => void openPeek(world, id)),
    r: reply,
    Escape() {
      if (list.here() === null || !(document.activeElement instanceof HTMLElement)) return false;
      document.activeElement.blur();
      return true;
    },
  };
}

/** @typedef {{along: (step: 1 | -1) => unknown, here: () => string | null}} Along */

/**
 * Returns the keys that move between rows.
 *
 * @param {Along} list
 * @returns {import("../view/keys.js").Keys}
 */
export const moveKeys = ({ along, here }) => ({
  j: () => void along(1),
  k: () => void along(-1),
  ArrowDown: () => here() !== null && (along(1), true),
  ArrowUp: () => here() !== null && (along(-1), true),
});

/**
 * Returns the focused row of a window, and a function that moves the focus.
 *
 * @param {any} list
 * @param {string} name Attribute that contains the key of a row.
 */
export function alongWindow(list, name) {
  const row = () => document.activeElement?.closest(`.rows [${name}]`) ?? null;
  const here = () => row()?.getAttribute(name) ?? null;
  /** @param {1 | -1} step */
  function along(step) {
    const at = list.indexOf(here() ?? "") + step;
    const title = list.reveal(Math.max(0, Math.min(list.count() - 1, at)))?.querySelector(".title");
    title?.focus({ preventScroll: true });
    return Boolean(title);
  }
  return { row, here, along };
}

/**
 * Returns the keys of a window of cards.
 *
 * Cards have no buttons, so the keys start the actions directly.
 *
 * @param {import("../world.js").World} world
 * @param {any} list
 * @param {ReturnType<typeof import("./chosen.js").chosenTasks>} chosen
 * @returns {import("../view/keys.js").Keys}
 */
export function windowKeys(world, list, chosen) {
  const going = alongWindow(list, "data-thread");
  const { here } = going;
  /** @param {string} id */
  const begin = (id) => () =>
    chosen.many(id) || (here() !== null && (beginById(world, id, world.store.get("thread", here())), true));
  const keys = listKeys(world, going, here);
  return {
    ...keys,
    x: () => chosen.choose(list, here(), false),
    "Shift+x": () => chosen.choose(list, here(), true),
    Escape: (event) => chosen.clear() || keys.Escape?.(event),
    ...Object.fromEntries(onThreads.map(({ key, id }) => [key, begin(id)])),
  };
}
