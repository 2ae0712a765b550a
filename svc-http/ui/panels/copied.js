// Text to copy, with a copy button.
//
// Not here: the content of the text.

import { copyButton } from "../view/copy.js";
import { h } from "../view/node.js";

/**
 * @param {string} text
 * @param {string} name
 */
export function copied(text, name) {
  const pre = h("pre", { dir: "ltr", tabindex: 0, "data-copy": name }, text);
  return h("div.stack.tight", pre, h("div.row", copyButton(text)));
}
