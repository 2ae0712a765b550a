// A button that copies a text.
//
// Promises: where a page may not copy by itself (plain http), all of the text is selected instead, also what is not
// shown of it. Leaves out: where the text stands.

import { secret as say } from "../strings/en.js";
import { button, h, setText } from "./node.js";

/**
 * @param {string} text
 * @param {import("./node.js").Props} [props]
 */
export function copyButton(text, props) {
  const press = button(
    say.copy,
    async () => {
      try {
        await navigator.clipboard.writeText(text);
        setText(press, say.copied);
      } catch {
        setText(press, say.select);
        select();
      }
    },
    props,
  );

  function select() {
    // It is there as long as it is selected. To remove it blurs it, and it cannot be removed within that.
    const onblur = () => queueMicrotask(() => field.remove());
    const field = h("textarea.heard", { readonly: true, "aria-label": say.copy, onblur }, text);
    press.after(field);
    field.select();
  }
  return press;
}
