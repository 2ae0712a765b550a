// Result of a task, as submitted.
//
// Not here: the meaning of a kind of result.

import { parts as say } from "../strings/en.js";
import { headOf } from "../pure/fold.js";
import { codeNode } from "../view/code.js";
import { foldable } from "../view/fold.js";
import { h, setChildren, words } from "../view/node.js";
import { verbatim } from "../view/plain.js";

/**
 * @param {HTMLElement} place
 * @param {import("../world.js").World} world
 * @returns {import("../panels.js").OpenPanel}
 */
export function open(place, world) {
  /** @type {unknown} */
  let drawn;
  return {
    show(thread) {
      const result = world.store.get("result", thread.id);
      if (result === drawn) return;
      drawn = result;
      if (!result) return setChildren(place, [h("p.quiet", say.noResult)]);
      setChildren(place, [
        h("p", say.producedBy, world.names.member(result.produced_by)),
        result.result_kind ? h("p", h("span.chip", words(result.result_kind))) : null,
        ...(result.purged ? [h("p.quiet", say.purged)] : valueOf(result.result)),
      ]);
    },
  };
}

/** Returns the nodes of the submitted value, with a diff in it shown separately. @param {any} value */
function valueOf(value) {
  if (typeof value?.diff !== "string") return [verbatim(value)];
  const { diff, ...rest } = value;
  const place = h("div.marked");
  foldable(place, diff, (head) => [codeNode(head ? headOf(diff, head) : diff, "diff", diff)]);
  return Object.keys(rest).length ? [place, verbatim(rest)] : [place];
}
