// Keys of the board: moving between cards and lanes, selecting cards, and the filter.
//
// Guarantees: the focus stays on an existing card when a list changes. Not here: what can be done with a
// card, which the actions define.

import { beginById } from "../act.js";
import { actions } from "../actions.js";
import { openPeek } from "../later.js";
import { hrefTo } from "../names.js";
import { acting as say, actionNames } from "../strings/en.js";

/** @typedef {{lane: string, list: any, node: HTMLElement}} Column */

/**
 * @param {{
 *   root: HTMLElement,
 *   columns: Column[],
 *   input: HTMLInputElement,
 *   world: import("../world.js").World,
 *   chosen: ReturnType<typeof import("./chosen.js").chosenTasks>,
 * }} board
 * @returns {import("../view/keys.js").Keys}
 */
export function boardKeys({ root, columns, input, world, chosen }) {
  /** Returns the lane and the row of the focus. */
  function here() {
    const card = document.activeElement?.closest("[data-thread]");
    const lane = card?.closest("[data-lane]")?.getAttribute("data-lane");
    const column = columns.findIndex((one) => one.lane === lane);
    if (column < 0 || !(card instanceof HTMLElement)) return null;
    const id = card.dataset.thread ?? "";
    return { column, row: /** @type {Column} */ (columns[column]).list.indexOf(id), id, card };
  }

  /** @param {number} column @param {number} row */
  function focus(column, row) {
    const list = columns[column]?.list;
    const count = list?.count() ?? 0;
    if (count === 0) return false;
    const card = list.reveal(Math.max(0, Math.min(count - 1, row)));
    card?.querySelector("a.title")?.focus({ preventScroll: true });
    card?.scrollIntoView({ block: "nearest", inline: "nearest" });
    return true;
  }

  /** @param {1 | -1} step */
  function along(step) {
    const now = here();
    if (!now) return void first();
    focus(now.column, now.row + step);
  }

  /** @param {1 | -1} step */
  function across(step) {
    const now = here();
    if (!now) return void first();
    for (let at = now.column + step; at >= 0 && at < columns.length; at += step) {
      if (columns[at]?.node.offsetParent && focus(at, Math.max(0, now.row))) return;
    }
  }

  function first() {
    columns.some(({ node }, at) => node.offsetParent !== null && focus(at, 0));
  }

  /** @param {boolean} isRange */
  function choose(isRange) {
    const now = here();
    return now !== null && chosen.choose(/** @type {Column} */ (columns[now.column]).list, now.id, isRange);
  }

  function escape() {
    if (document.activeElement === input) {
      input.blur();
      first();
    } else if (chosen.clear()) return true;
    else if (root.contains(document.activeElement) && document.activeElement instanceof HTMLElement) {
      document.activeElement.blur();
    } else return false;
    return true;
  }

  /** Returns the keys of actions on all selected cards, or on the card with the focus. */
  function actionKeys() {
    const keyed = actions.filter(({ on, key }) => on === "thread" && key);
    return Object.fromEntries(
      keyed.map(({ key, id }) => [
        key,
        () => chosen.many(id) || onFocused((thread) => beginById(world, id, thread)),
      ]),
    );
  }

  /** @param {(thread: any) => void} act */
  function onFocused(act) {
    const thread = world.store.get("thread", here()?.id);
    if (!thread) return false;
    act(thread);
    return true;
  }

  /**
   * Returns the keys that lead to a pending approval, which is answered where it can be read.
   *
   * @returns {import("../view/keys.js").Keys}
   */
  function gateKeys() {
    const asks = (/** @type {string} */ id) =>
      world.store.all("gate").some(({ state, thread_id }) => state === "pending" && thread_id === id);
    const onGates = actions.filter(({ on, key }) => on === "gate" && key);
    return Object.fromEntries(
      onGates.map(({ key, id: action }) => [
        key,
        () =>
          onFocused(({ id }) =>
            asks(id) ? go(id, "#gates") : world.tell(say.cannot(actionNames[action] ?? action, say.notNow)),
          ),
      ]),
    );
  }

  /** @param {string} id @param {string} fragment */
  function go(id, fragment) {
    const href = hrefTo("task", { id }, fragment);
    if (href) world.go(href);
  }

  return {
    ...actionKeys(),
    ...gateKeys(),
    r: () => onFocused(({ id }) => go(id, "#say")),
    Space: () => onFocused(({ id }) => openPeek(world, id)),
    j: () => along(1),
    k: () => along(-1),
    h: () => across(-1),
    l: () => across(1),
    ArrowDown: () => here() !== null && (along(1), true),
    ArrowUp: () => here() !== null && (along(-1), true),
    ArrowLeft: () => here() !== null && (across(-1), true),
    ArrowRight: () => here() !== null && (across(1), true),
    x: () => choose(false),
    "Shift+x": () => choose(true),
    "/": () => (input.focus(), input.select()),
    Escape: escape,
  };
}
