// A button that copies a text.
//
// Promises: where a page may not copy by itself (plain http), the text is selected instead. Leaves out: where
// the text stands.

import { secret as say } from "../strings/en.js";
import { button, setText } from "./node.js";

/**
 * @param {string} text
 * @param {Node} shown What has the text on the page.
 * @param {import("./node.js").Props} [props]
 */
export function copyButton(text, shown, props) {
  const press = button(
    say.copy,
    async () => {
      try {
        await navigator.clipboard.writeText(text);
        setText(press, say.copied);
      } catch {
        getSelection()?.selectAllChildren(shown);
        setText(press, say.select);
      }
    },
    props,
  );
  return press;
}
