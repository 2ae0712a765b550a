// A field for what is looked for.
//
// Promises: browsers neither complete nor correct what is typed; it is looked for once somebody stops typing, and not
// when the field is gone. Leaves out: what it finds.

import { h } from "./node.js";

/** How long after the last key it is looked for, in ms. */
const TYPED = 200;

/**
 * @param {string} name
 * @param {string} label
 * @param {string} hint
 * @param {Record<string, string>} [props]
 */
export const searchField = (name, label, hint, props = {}) =>
  h("input", {
    type: "search",
    name,
    placeholder: hint,
    "aria-label": label,
    autocomplete: "off",
    spellcheck: "false",
    ...props,
  });

/** @param {HTMLInputElement} input @param {() => void} look */
export function whenTyped(input, look) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let typing;
  input.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => input.isConnected && look(), TYPED);
  });
}
