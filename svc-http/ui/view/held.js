// A list of rows of any height that holds still while somebody is at it.
//
// Promises: while the list is held (hold.js) its rows change in place, one that has gone stays and is drawn
// as leaving, and what arrived waits behind a button that counts it; the button takes no room. A row that
// changes its height moves not the one that somebody is at. Leaves out: what a row shows, and lists so long
// that they need a window (window.js).

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
 * }} how `most`: so many rows are shown, and so many more at a press; `onMore` is told of that press; `area`: what
 * the list would move, where a pointer holds it.
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

  /** Shows the list as it is. */
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
    // What had the focus may be gone from its row: the row keeps it.
    if (had !== null && here() === null) focus(had);
  }

  /** The row with the focus; within it there may be other keys. */
  function row() {
    const found = document.activeElement?.closest(".held-rows > [data-key]");
    return found instanceof HTMLElement && found.parentElement === list ? found : null;
  }

  const here = () => row()?.dataset.key ?? null;

  /**
   * Puts the focus on the first link or control of a row.
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
   * Goes from the row with the focus to the next that is still there, once what waits is in.
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
