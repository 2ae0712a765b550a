// Search field.
//
// Guarantees: browsers neither complete nor correct the text; the search runs after a pause in typing, unless
// the field is gone. Not here: the search.

import { h } from "./node.js";

/** Pause in typing before the search runs, in ms. */
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
