// The approvals that are asked for in a task, those that are open first.
//
// Leaves out: how one is answered (gate.js).

import { keyed } from "../view/node.js";
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
  return {
    show(thread) {
      const gates = world.store
        .all("gate")
        .filter((gate) => gate.thread_id === thread.id)
        .sort(
          (one, other) =>
            Number(other.state === "pending") - Number(one.state === "pending") || other.lsn - one.lsn,
        );
      keyed(place, gates.slice(0, SHOWN), {
        key: ({ id }) => id,
        make({ id }) {
          const gate = openGate(world, id);
          opened.set(gate.node, gate);
          return gate.node;
        },
        update: (node) => opened.get(node)?.show(),
      });
    },
  };
}
