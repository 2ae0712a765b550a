// Tasks that are chosen of a list, to do one thing with all of them, and the bar that says how many they are.
//
// Promises: what is not in the list any more is not chosen. Leaves out: what is done with them (many.js).

import { openMany } from "../later.js";
import { acting as say } from "../strings/en.js";
import { button, h, setText, show } from "../view/node.js";

/** @typedef {{indexOf: (id: string) => number, at: (at: number) => string | undefined}} List */

/**
 * @param {import("../world.js").World} world
 * @param {() => void} redraw
 */
export function createChosen(world, redraw) {
  /** @type {Set<string>} */
  const ids = new Set();
  const text = h("span");
  const node = h(
    "div.row.chosen",
    { hidden: true, role: "region", "aria-label": say.choose },
    text,
    button(say.choose, () => many(), { class: "primary", "data-many": "" }),
    button(say.clear, () => clear()),
  );

  /** @returns {boolean} Whether any were. */
  function clear() {
    const had = ids.size > 0;
    ids.clear();
    if (had) redraw();
    return had;
  }

  /**
   * Says what is to be done with all that are chosen.
   *
   * @param {string} [action]
   * @returns {boolean} Whether any are.
   */
  function many(action) {
    if (ids.size > 0) void openMany(world, [...ids], clear, action);
    return ids.size > 0;
  }

  /** @param {List} list @param {string | null} id The row with the focus. @param {boolean} isRange */
  function choose(list, id, isRange) {
    if (id === null) return false;
    const at = list.indexOf(id);
    const rows = [...ids].map((one) => list.indexOf(one)).filter((row) => row >= 0);
    if (isRange && ids.size > 0) {
      for (let row = Math.min(at, ...rows); row <= Math.max(at, ...rows); row += 1) ids.add(list.at(row) ?? id);
    } else if (!ids.delete(id)) ids.add(id);
    redraw();
    return true;
  }

  return {
    node,
    many,
    clear,
    choose,
    /** @param {string} id */
    has: (id) => ids.has(id),
    /** @param {(id: string) => boolean} isThere What is not in sight is not acted on unseen. */
    draw(isThere) {
      for (const id of ids) if (!isThere(id)) ids.delete(id);
      show(node, ids.size > 0);
      setText(text, say.many(ids.size));
    },
  };
}
