// Loads the steps of the first run into a screen.
//
// Guarantees: the module with the steps is loaded only in a workspace with few tasks, so that other users do
// not wait for it. Not here: the steps (panels/first.js).

import { h, show } from "../view/node.js";

/** @typedef {import("../world.js").World} World */

/** Maximum number of tasks in a workspace that counts as new. */
export const FEW = 3;

/**
 * @param {World} world
 * @param {{class?: string}} [attributes] Attributes of the element that contains the steps.
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
    /** @param {boolean} isRead Whether all tasks are loaded, so that an empty list is final. */
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
        // The next draw imports the module again.
        () => (isAsked = false),
      );
    },
  };
}
