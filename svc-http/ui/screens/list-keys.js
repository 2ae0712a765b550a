// The keys of a list that holds still: from row to row, a look, an answer, and what the row's own buttons do.
//
// Promises: the key of an action is a press on its button in the row with the focus, so that what is armed by
// a press is armed by a key. Leaves out: what else a screen binds.

import { beginById } from "../act.js";
import { actions } from "../actions.js";
import { openPeek } from "../later.js";
import { press, pressKeys } from "./press.js";

const onThreads = actions.filter(({ key, on }) => key && on === "thread");

/**
 * @param {import("../world.js").World} world
 * @param {{along: (step: 1 | -1) => boolean, here: () => string | null, row: () => Element | null}} list
 * @param {() => string | null} threadId Of the row with the focus.
 * @returns {import("../view/keys.js").Keys}
 */
export function listKeys(world, list, threadId) {
  const next = () => void list.along(1);
  const last = () => void list.along(-1);

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
    j: next,
    k: last,
    ArrowDown: () => list.here() !== null && list.along(1),
    ArrowUp: () => list.here() !== null && list.along(-1),
    Space: () => onThread((id) => void openPeek(world, id)),
    r: reply,
    Escape() {
      if (list.here() === null || !(document.activeElement instanceof HTMLElement)) return false;
      document.activeElement.blur();
      return true;
    },
  };
}

/**
 * The keys of a window of cards; as these have no buttons, the actions begin by their keys.
 *
 * @param {import("../world.js").World} world
 * @param {any} list
 * @param {string} cards
 * @param {ReturnType<typeof import("./chosen.js").createChosen>} chosen
 * @returns {import("../view/keys.js").Keys}
 */
export function windowKeys(world, list, cards, chosen) {
  const row = () => document.activeElement?.closest(cards) ?? null;
  const here = () => row()?.getAttribute("data-thread") ?? null;
  /** @param {1 | -1} step */
  function along(step) {
    const at = list.indexOf(here() ?? "") + step;
    const title = list.reveal(Math.max(0, Math.min(list.count() - 1, at)))?.querySelector("a.title");
    title?.focus({ preventScroll: true });
    return Boolean(title);
  }
  /** @param {string} id */
  const begin = (id) => () =>
    chosen.many(id) || (here() !== null && (beginById(world, id, world.store.get("thread", here())), true));
  const keys = listKeys(world, { along, here, row }, here);
  return {
    ...keys,
    x: () => chosen.choose(list, here(), false),
    "Shift+x": () => chosen.choose(list, here(), true),
    Escape: (event) => chosen.clear() || keys.Escape?.(event),
    ...Object.fromEntries(onThreads.map(({ key, id }) => [key, begin(id)])),
  };
}
