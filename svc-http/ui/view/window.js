// List of rows of equal height, of which only the visible ones are nodes.
//
// Guarantees: 10,000 rows cost as much as 30; a row keeps its node while it is visible or has the focus;
// while the list is held (hold.js), rows change in place and moves wait behind a button that counts new rows;
// screen readers receive the number of rows. Not here: the content of rows.

import { button, h, setAttr, setText, show } from "./node.js";
import { createHold } from "./hold.js";

/** Number of rows beyond the edges that are kept ready for scrolling. */
const OVERSCAN = 4;

/**
 * @template T
 * @param {{
 *   label: string,
 *   waits: (n: number) => string,
 *   height: () => number,
 *   key: (item: T) => string,
 *   make: (item: T) => HTMLElement,
 *   update: (node: HTMLElement, item: T, isLeaving: boolean) => void,
 *   onEnd?: () => void,
 * }} how `isLeaving`: the item is gone but its row is held. `onEnd`: called when the last row is visible.
 */
export function createWindow({ label, waits, height, key, make, update, onEnd }) {
  const rows = h("ul.rows", { role: "list", "aria-label": label });
  const news = button("", () => take(), { class: "news", hidden: true });
  const scroller = h("div.scroller", { tabindex: -1 }, rows);
  const root = h("div.window", news, scroller);
  const hold = createHold(root, scroller);
  /** @type {T[]} */
  let shown = [];
  /** @type {T[]} */
  let wanted = [];
  /** Wanted items by key; created on demand, because few draws need the map. @type {Map<string, T> | null} */
  let byKey = null;
  /** @type {Map<string, HTMLElement>} */
  const nodes = new Map();
  let rowHeight = height();
  /**
   * Scroll position and height of the list.
   *
   * They are measured when they change, not at each draw, because measuring lays out the whole page.
   */
  let view = { top: 0, height: 0 };
  let isMeasured = false;
  let frame = 0;

  scroller.addEventListener("scroll", () => (look(), soon()), { passive: true });
  const resized = new ResizeObserver(() => {
    rowHeight = height();
    look();
    soon();
  });
  resized.observe(scroller);

  function look() {
    view = { top: scroller.scrollTop, height: scroller.clientHeight };
    isMeasured = true;
  }

  /** @param {number} top */
  function scrollTo(top) {
    scroller.scrollTop = top;
    look();
  }

  function soon() {
    if (!frame) frame = requestAnimationFrame(draw);
  }

  /** @param {T[]} items */
  function setItems(items) {
    wanted = items;
    byKey = null;
    settle();
  }

  const wantedByKey = () => (byKey ??= new Map(wanted.map((item) => [key(item), item])));

  function settle() {
    hold.drop();
    if (shown.length > 0 && hold.isHeld()) {
      const before = new Set(shown.map(key));
      const moved = moves(before);
      const arrived = wanted.reduce((sum, item) => sum + (before.has(key(item)) ? 0 : 1), 0);
      show(news, moved);
      if (moved) setText(news, waits(arrived));
      if (moved) hold.whenFree(take);
      if (!moved) shown = wanted;
      draw();
    } else {
      take();
    }
  }

  /** @param {Set<string>} before */
  function moves(before) {
    return (
      wanted.length !== before.size ||
      wanted.some((item, at) => key(item) !== key(/** @type {T} */ (shown[at])))
    );
  }

  /** Shows the current list. The first visible row stays in place, unless the list is at its beginning. */
  function take() {
    show(news, false);
    const { top } = view;
    const anchor = top > 0 ? shown[Math.floor(top / rowHeight)] : undefined;
    const anchorKey = anchor === undefined ? null : key(anchor);
    shown = wanted;
    const at =
      anchorKey === null || !wantedByKey().has(anchorKey) ? -1 : shown.findIndex((item) => key(item) === anchorKey);
    resize();
    if (at >= 0) {
      const target = at * rowHeight + (top % rowHeight);
      if (Math.abs(target - top) >= 1) scrollTo(target);
    }
    draw();
  }

  function resize() {
    const wantedHeight = `${shown.length * rowHeight}px`;
    if (rows.style.height !== wantedHeight) rows.style.height = wantedHeight;
  }

  function draw() {
    cancelAnimationFrame(frame);
    frame = 0;
    resize();
    if (!isMeasured && scroller.isConnected) look();
    const from = Math.max(0, Math.floor(view.top / rowHeight) - OVERSCAN);
    const to = Math.min(shown.length, Math.ceil((view.top + view.height) / rowHeight) + OVERSCAN);
    /** @type {Set<string>} */
    const kept = new Set();
    for (let at = from; at < to; at += 1) kept.add(place(at));
    inOrder(kept);
    for (const [id, node] of nodes) {
      if (kept.has(id) || keepsFocus(id, node)) continue;
      node.remove();
      nodes.delete(id);
    }
    if (onEnd && shown.length > 0 && to >= shown.length) onEnd();
  }

  /** @param {number} at */
  function place(at) {
    const item = /** @type {T} */ (shown[at]);
    const id = key(item);
    let node = nodes.get(id);
    if (!node) {
      node = h("li.slot", make(item));
      nodes.set(id, node);
    }
    const top = `translateY(${at * rowHeight}px)`;
    if (node.style.transform !== top) node.style.transform = top;
    setAttr(node, "aria-setsize", shown.length);
    setAttr(node, "aria-posinset", at + 1);
    // While the list is held, a row shows the current item.
    const now = shown === wanted ? item : wantedByKey().get(id);
    update(/** @type {HTMLElement} */ (node.firstElementChild), now ?? item, now === undefined);
    return id;
  }

  /**
   * Puts the nodes in the order of the rows, for users of assistive technology; a focused node is not moved.
   *
   * @param {Set<string>} ids
   */
  function inOrder(ids) {
    let next = rows.firstElementChild;
    for (const id of ids) {
      const node = /** @type {HTMLElement} */ (nodes.get(id));
      if (node !== next && node.contains(document.activeElement)) {
        while (next && next !== node) {
          const after = next.nextElementSibling;
          rows.append(next);
          next = after;
        }
      }
      if (node === next) next = next.nextElementSibling;
      else rows.insertBefore(node, next);
    }
  }

  /** @param {string} id @param {HTMLElement} node */
  function keepsFocus(id, node) {
    if (!node.contains(document.activeElement)) return false;
    const at = shown.findIndex((item) => key(item) === id);
    if (at < 0) return false;
    node.style.transform = `translateY(${at * rowHeight}px)`;
    return true;
  }

  /** Scrolls a row into view and returns its node. @param {number} at */
  function reveal(at) {
    const item = shown[at];
    if (item === undefined) return null;
    look();
    const top = at * rowHeight;
    if (top < view.top) scrollTo(top);
    const bottom = top + rowHeight - view.height;
    if (bottom > view.top) scrollTo(bottom);
    draw();
    return nodes.get(key(item))?.firstElementChild ?? null;
  }

  return {
    root,
    setItems,
    /** Draws the same rows again. */
    redraw: draw,
    reveal,
    take,
    /** Measures the height of rows again, after it has changed. */
    measure() {
      rowHeight = height();
      draw();
    },
    count: () => shown.length,
    /** Returns the keys of rows that are nodes. */
    inSight: () => [...nodes.keys()],
    /** @param {string} id */
    indexOf: (id) => shown.findIndex((item) => key(item) === id),
    /** @param {number} at */
    at: (at) => shown[at],
    close() {
      hold.drop();
      cancelAnimationFrame(frame);
      resized.disconnect();
    },
  };
}

/**
 * Focuses the link of a row.
 *
 * @param {{indexOf: (id: string) => number, reveal: (at: number) => Element | null}} list
 * @param {string} id
 * @returns {boolean} Whether the row exists.
 */
export function focusRow(list, id) {
  const at = list.indexOf(id);
  const found = at < 0 ? null : list.reveal(at)?.querySelector("a[href]");
  if (!(found instanceof HTMLElement)) return false;
  found.focus({ preventScroll: true });
  return true;
}
