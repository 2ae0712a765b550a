// A text to copy, with a button that does it.
//
// Promises: where a page may not copy by itself (plain http), the text is selected instead. Leaves out: what
// the text is.

import { secret as say } from "../strings/en.js";
import { button, h, setText } from "../view/node.js";

/**
 * @param {string} text
 * @param {string} name
 */
export function copied(text, name) {
  const pre = h("pre", { dir: "ltr", tabindex: 0, "data-copy": name }, text);
  const press = button(say.copy, async () => {
    try {
      await navigator.clipboard.writeText(text);
      setText(press, say.copied);
    } catch {
      getSelection()?.selectAllChildren(pre);
      setText(press, say.select);
    }
  });
  return h("div.stack.tight", pre, h("div.row", press));
}
