// List of rows of any height that does not move while the user interacts with it.
//
// Guarantees: while the list is held (hold.js), rows change in place, a removed row stays and is marked as
// leaving, and new rows wait behind a button that counts them and takes no room; a row that changes its
// height does not move the row in use. Not here: the content of rows, and lists long enough to need a window
// (window.js).

import { createHold } from "./hold.js";
import { button, h, keyed, setText, show } from "./node.js";
import { steadily } from "./steady.js";

/**
 * @template T
 * @param {{
 *   label: string,
 *   waits: (n: number) => string,
 *   earlier: (n: number) => string,
 *   most: number,
 *   key: (item: T) => string,
 *   make: (item: T) => HTMLElement,
 *   update: (node: HTMLElement, item: T, isLeaving: boolean) => void,
 *   onMore?: () => void,
 *   area?: HTMLElement,
 * }} how `most`: number of rows shown, and added per press; `onMore` is called at that press; `area`: element
 * that the list would move, in which a pointer holds the list.
 */
export function createHeld({ label, waits, earlier, most, key, make, update, onMore, area }) {
  const news = button("", take, { class: "news", hidden: true });
  const list = h("ol.held-rows", { "aria-label": label });
  const more = button("", showMore, { class: "link", hidden: true });
  const newsPlace = h("div.news-place", news);
  const root = h("div.held-list", newsPlace, list, h("div.row", more));
  const hold = createHold(area ?? list, window);
  /** @type {T[]} */
  let shown = [];
  /** @type {T[]} */
  let wanted = [];
  /** @type {Map<string, T>} */
  let byKey = new Map();
  let limit = most;

  const holds = area ? hold.hasPointer : hold.isHeld;

  function settle() {
    if (!holds() || (!area && shown.length === 0)) return take();
    hold.drop();
    const before = new Set(shown.map(key));
    const arrived = wanted.filter((item) => !before.has(key(item))).length;
    const moved = wanted.length !== shown.length || wanted.some((item, at) => key(item) !== keyAt(at));
    show(news, moved);
    if (moved) {
      setText(news, waits(arrived));
      hold.whenFree(take, holds);
    } else shown = wanted;
    draw();
  }

  /** @param {number} at */
  const keyAt = (at) => key(/** @type {T} */ (shown[at]));

  /** Shows the current list. */
  function take() {
    hold.drop();
    show(news, false);
    shown = wanted;
    draw();
  }

  function showMore() {
    limit += most;
    onMore?.();
    draw();
  }

  function draw() {
    const had = here();
    show(more, shown.length > limit);
    setText(more, earlier(shown.length - limit));
    const updateRow = (/** @type {HTMLElement} */ node, /** @type {T} */ item) =>
      update(node, byKey.get(key(item)) ?? item, !byKey.has(key(item)));
    steadily(list, () => keyed(list, shown.slice(0, limit), { key, make, update: updateRow }));
    // If the focused control was removed, the focus stays in its row.
    if (had !== null && here() === null) focus(had);
  }

  /** Returns the focused row of this list, which may contain elements with keys of their own. */
  function row() {
    const found = document.activeElement?.closest(".held-rows > [data-key]");
    return found instanceof HTMLElement && found.parentElement === list ? found : null;
  }

  const here = () => row()?.dataset.key ?? null;

  /**
   * Focuses the first link or control of a row.
   *
   * @param {string | null} id
   */
  function focus(id) {
    const row = id === null ? null : list.querySelector(`:scope > [data-key="${CSS.escape(id)}"]`);
    const target = row?.querySelector("a[href], button");
    if (!(row instanceof HTMLElement) || !(target instanceof HTMLElement)) return false;
    target.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    return true;
  }

  /**
   * Shows waiting rows, and moves from the focused row to the next row that still exists.
   *
   * @param {1 | -1} step
   */
  function along(step) {
    const from = shown.findIndex((item) => key(item) === here());
    const rest = step === 1 ? shown.slice(from + 1) : shown.slice(0, Math.max(0, from)).reverse();
    const next = rest.find((item) => byKey.has(key(item))) ?? (from < 0 ? wanted[0] : undefined);
    const stay = from < 0 ? undefined : shown[from];
    take();
    return focus(next ? key(next) : stay && byKey.has(key(stay)) ? key(stay) : null);
  }

  return {
    root,
    newsPlace,
    /** @param {T[]} items */
    setItems(items) {
      wanted = items;
      byKey = new Map(items.map((item) => [key(item), item]));
      settle();
    },
    redraw: draw,
    take,
    here,
    focus,
    along,
    row,
    keys: () => wanted.map(key),
    close: hold.drop,
  };
}
