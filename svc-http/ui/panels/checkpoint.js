// Latest checkpoint of a task: the progress notes that a holder stored.
//
// Not here: the meaning of the notes, which agents define.

import { ms } from "../pure/clock.js";
import { dateTime } from "../pure/format.js";
import { parts as say } from "../strings/en.js";
import { actionBar } from "../act.js";
import { h, setChildren } from "../view/node.js";
import { verbatim } from "../view/plain.js";

/**
 * @param {HTMLElement} place
 * @param {import("../world.js").World} world
 * @returns {import("../panels.js").OpenPanel}
 */
export function open(place, world) {
  const content = h("div.stack.tight");
  const buttons = h("div.row");
  const bar = actionBar(world, "thread", buttons, ({ id }) => id === "checkpoint_claim");
  place.append(content, buttons);
  /** @type {unknown} */
  let drawn;
  return {
    show(thread) {
      const checkpoint = world.store.get("context", thread.id)?.checkpoint ?? null;
      if (checkpoint !== drawn)
        setChildren(content, checkpoint ? wordsOf(checkpoint) : [h("p.quiet", say.none)]);
      drawn = checkpoint;
      bar.show(thread);
    },
  };

  /** @param {any} checkpoint */
  function wordsOf({ checkpoint, member_id, at }) {
    return [
      h("p.quiet.small", say.forWhom(dateTime(ms(at) ?? 0)), world.names.member(member_id)),
      verbatim(checkpoint, { dir: "auto" }),
    ];
  }
}
