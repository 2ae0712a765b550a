// The steps of the first run, on a screen that the board opens with.
//
// Promises: their module is fetched only where there is next to nothing, so that nobody else waits for it.
// Leaves out: what the steps are (panels/first.js).

import { h, show } from "../view/node.js";

/** @typedef {import("../world.js").World} World */

/** More tasks than these are no first run. */
export const FEW = 3;

/**
 * @param {World} world
 * @param {{class?: string}} [attributes] Of the place where they are.
 */
export function createFirstSteps(world, attributes = {}) {
  const root = h("div", { ...attributes, hidden: true });
  /** @type {ReturnType<typeof import("./first.js").openFirstRun> | null} */
  let steps = null;
  let isAsked = false;

  function draw(/** @type {boolean} */ isRead) {
    steps?.show(isRead);
    show(root, steps !== null && !steps.root.hidden);
  }

  return {
    root,
    /** @param {boolean} isRead Whether all tasks are read, so that none is none. */
    show(isRead) {
      draw(isRead);
      if (isAsked || !isRead || world.store.count("thread") > FEW) return;
      isAsked = true;
      import("./first.js").then(
        ({ openFirstRun }) => {
          if (!root.isConnected) return;
          steps = openFirstRun(world);
          root.append(steps.root);
          draw(true);
        },
        // It is fetched anew with the next draw.
        () => (isAsked = false),
      );
    },
  };
}
