// Memory blocks attached to a task.
//
// Not here: editing the blocks.

import { parts as say } from "../strings/en.js";
import { actionOf } from "../actions.js";
import { actionBar, actionButton } from "../act.js";
import { h, setChildren, words } from "../view/node.js";
import { verbatim } from "../view/plain.js";

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
  const removal = /** @type {import("../actions.js").Action} */ (actionOf("detach_memory_block"));
  let drawn = "";
  return {
    show(thread) {
      const ids = world.store.get("memory", thread.id)?.ids ?? [];
      const blocks = ids.flatMap((/** @type {string} */ id) => world.store.get("memory_block", id) ?? []);
      const state = blocks.map((/** @type {any} */ { id, of }) => `${id} ${of}`).join();
      if (state !== drawn || !list.firstChild) {
        setChildren(
          list,
          blocks.length
            ? blocks.map((/** @type {any} */ block) => blockOf(thread, block))
            : [h("p.quiet", say.noBlocks)],
        );
      }
      drawn = state;
      bar.show(thread);
    },
  };

  /** @param {any} thread @param {any} block */
  function blockOf(thread, { id, label, value, version, read_only }) {
    const entity = { id: `${thread.id} ${id}`, thread_id: thread.id, block_id: id };
    const detach = actionButton(world, removal, () => entity);
    return h(
      "details",
      h(
        "summary",
        words(label),
        " ",
        h("span.quiet.small", say.version(version), read_only ? `, ${say.readOnly}` : ""),
      ),
      verbatim(value, { dir: "auto" }),
      h("div.row", detach.node),
    );
  }
}
