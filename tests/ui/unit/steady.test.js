// What stays where it is while a list is drawn. That it does in a browser is in task.spec.js and talk.spec.js.

import assert from "node:assert/strict";
import { test } from "node:test";

import { steadily } from "../../../svc-http/ui/view/steady.js";

const SCREEN = 600;

/** A page that is scrolled so far, with a list in which a row stands at `top` of the screen, and a button in it. */
function page(scrolled, top, how) {
  let [at, grown] = [scrolled, 0];
  const style = { paddingTop: "", paddingBottom: "" };
  const scroller = {
    clientHeight: SCREEN,
    scrollHeight: 9_000,
    get scrollTop() {
      return at;
    },
    set scrollTop(next) {
      at = Math.max(0, Math.min(next, 9_000 - SCREEN));
    },
  };
  globalThis.innerHeight = SCREEN;
  globalThis.document = /** @type {any} */ ({ scrollingElement: scroller });
  globalThis.getComputedStyle = /** @type {any} */ (() => ({ overflowY: "visible" }));
  const node = () => ({
    isHidden: false,
    isConnected: true,
    getClientRects() {
      return this.isHidden ? [] : [this.getBoundingClientRect()];
    },
    getBoundingClientRect() {
      const now = this.isHidden ? 0 : top + scrolled - at + grown + (parseFloat(style.paddingTop) || 0);
      return { top: now, bottom: now + (this.isHidden ? 0 : 40) };
    },
  });
  const [row, press] = [node(), node()];
  const querySelectorAll = (/** @type {string} */ what) => (what === how ? [row, press] : []);
  const area = /** @type {any} */ ({ style, parentElement: null, querySelectorAll, addEventListener() {} });
  return { area, row, press, scroller, grow: (/** @type {number} */ by) => (grown += by) };
}

for (const [scrolled, how] of /** @type {const} */ ([
  [0, ":hover"],
  [1_000, ":hover"],
  [1_000, ":focus-within"],
]))
  test(`a button that hides itself moves nothing: ${how}, scrolled by ${scrolled}`, () => {
    const { area, row, press } = page(scrolled, 400, how);
    steadily(area, () => (press.isHidden = true));
    assert.equal(row.getBoundingClientRect().top, 400);
  });

test("what grows above what has the focus moves it only if it is in sight", () => {
  const near = page(1_000, 400, ":focus-within");
  steadily(near.area, () => near.grow(300));
  assert.deepEqual([near.row.getBoundingClientRect().top, near.scroller.scrollTop], [400, 1_300]);
  const far = page(1_000, 4_000, ":focus-within");
  steadily(far.area, () => far.grow(300));
  assert.equal(far.scroller.scrollTop, 1_000);
});
