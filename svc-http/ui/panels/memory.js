// The memory blocks that are attached to a task.
//
// Leaves out: changing them.

import { parts as say } from "../strings/en.js";
import { actionBar } from "../act.js";
import { h, setChildren, words } from "../view/node.js";

/**
 * @param {HTMLElement} place
 * @param {import("../world.js").World} world
 * @returns {import("../panels.js").OpenPanel}
 */
export function open(place, world) {
  const list = h("div.stack.tight");
  const buttons = h("div.row");
  const bar = actionBar(world, "thread", buttons, ({ id }) => id === "attach_memory_block");
  place.append(list, buttons);
  let drawn = "";
  return {
    show(thread) {
      const ids = world.store.get("memory", thread.id)?.ids ?? [];
      const blocks = ids.flatMap((/** @type {string} */ id) => world.store.get("memory_block", id) ?? []);
      const state = blocks.map((/** @type {any} */ { id, of }) => `${id} ${of}`).join();
      if (state !== drawn || !list.firstChild) {
        setChildren(list, blocks.length ? blocks.map(blockOf) : [h("p.quiet", say.noBlocks)]);
      }
      drawn = state;
      bar.show(thread);
    },
  };
}

/** @param {any} block */
function blockOf({ label, value, version, read_only }) {
  return h(
    "details",
    h(
      "summary",
      words(label),
      " ",
      h("span.quiet.small", say.version(version), read_only ? `, ${say.readOnly}` : ""),
    ),
    h("pre", { dir: "auto", tabindex: 0 }, value),
  );
}
