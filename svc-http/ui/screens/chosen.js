// Selection in a list, for one action on all selected items, and the bar that shows its size.
//
// Guarantees: an item that leaves the list is deselected. Not here: the action.

import { openMany } from "../later.js";
import { acting as say } from "../strings/en.js";
import { button, h, setText, show } from "../view/node.js";

/** @typedef {{indexOf: (id: string) => number, at: (at: number) => string | undefined}} List */

/**
 * @param {() => void} redraw
 * @param {(count: number) => string} told
 * @param {HTMLElement} act
 */
export function createChosen(redraw, told, act) {
  /** @type {Set<string>} */
  const ids = new Set();
  const text = h("span");
  const name = { hidden: true, role: "region", "aria-label": say.choose };
  const node = h("div.row.chosen", name, text, act, button(say.clear, clear));

  /** @returns {boolean} Whether any item was selected. */
  function clear() {
    const had = ids.size > 0;
    ids.clear();
    if (had) redraw();
    return had;
  }

  return {
    node,
    ids,
    clear,
    /** @param {List} list @param {string | null} id Id of the row to toggle. @param {boolean} isRange */
    choose(list, id, isRange) {
      if (id === null) return false;
      const at = list.indexOf(id);
      const rows = [...ids].map((one) => list.indexOf(one)).filter((row) => row >= 0);
      if (isRange && at >= 0 && ids.size > 0) {
        for (let row = Math.min(at, ...rows); row <= Math.max(at, ...rows); row += 1) ids.add(list.at(row) ?? id);
      } else if (!ids.delete(id)) ids.add(id);
      redraw();
      return true;
    },
    /**
     * @param {(id: string) => boolean} isThere Returns whether an item is in the list; others are deselected.
     */
    draw(isThere) {
      for (const id of ids) if (!isThere(id)) ids.delete(id);
      show(node, ids.size > 0);
      setText(text, told(ids.size));
    },
  };
}

/** @typedef {ReturnType<typeof chosenTasks>} ChosenTasks */

/**
 * Creates a selection of tasks, with all actions on tasks.
 *
 * @param {import("../world.js").World} world
 * @param {() => void} redraw
 */
export function chosenTasks(world, redraw) {
  const act = button(say.choose, () => many(), { class: "primary", "data-many": "" });
  const chosen = createChosen(redraw, say.many, act);

  /**
   * Opens the bulk actions for the selected tasks.
   *
   * @param {string} [action]
   * @returns {boolean} Whether any task is selected.
   */
  function many(action) {
    const { ids, clear } = chosen;
    if (ids.size > 0) void openMany(world, [...ids], clear, action);
    return ids.size > 0;
  }
  return { ...chosen, many };
}
