// Button that copies a text.
//
// Guarantees: if the page may not write to the clipboard (plain HTTP), the complete text is selected instead,
// including parts that are not shown. Not here: showing the text.

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
    // The field exists while it has the focus. Removing the field fails inside its own blur event.
    const onblur = () => queueMicrotask(() => field.remove());
    const field = h("textarea.heard", { readonly: true, "aria-label": say.copy, onblur }, text);
    press.after(field);
    field.select();
  }
  return press;
}
