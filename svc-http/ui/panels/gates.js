// Approval requests of a task, pending ones first.
//
// Guarantees: a request that arrives while the pointer is over the task waits behind a button, because it
// would move the content below. Not here: answering a request (gate.js).

import { board as boardSay, now as nowSay, panelNames } from "../strings/en.js";
import { createHeld } from "../view/held.js";
import { h } from "../view/node.js";
import { openGate } from "./gate.js";

const SHOWN = 10;

/**
 * @param {HTMLElement} place
 * @param {import("../world.js").World} world
 * @returns {import("../panels.js").OpenPanel}
 */
export function open(place, world) {
  /** @type {WeakMap<HTMLElement, import("./gate.js").OpenGate>} */
  const opened = new WeakMap();
  const area = /** @type {HTMLElement} */ (place.closest(".task-main"));
  const list = createHeld({
    label: panelNames.gates ?? "",
    waits: boardSay.waits,
    earlier: nowSay.more,
    most: SHOWN,
    key: (/** @type {any} */ { id }) => id,
    make({ id }) {
      const gate = openGate(world, id);
      const node = h("li", gate.node);
      opened.set(node, gate);
      return node;
    },
    update: (node) => opened.get(node)?.show(),
    area,
  });
  place.append(list.root);
  area.prepend(list.newsPlace);
  let isKnown = false;
  return {
    show(thread) {
      const gates = world.store
        .all("gate")
        .filter((gate) => gate.thread_id === thread.id)
        .sort(
          (one, other) =>
            Number(other.state === "pending") - Number(one.state === "pending") || other.lsn - one.lsn,
        );
      list.setItems(gates);
      // Requests of the first read are not announced as new.
      if (!isKnown) list.take();
      isKnown = world.store.get("gates", thread.id) !== undefined;
    },
    close: list.close,
  };
}
