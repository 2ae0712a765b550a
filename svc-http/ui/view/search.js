// A field for what is looked for.
//
// Promises: browsers neither complete nor correct what is typed. Leaves out: what it finds.

import { h } from "./node.js";

/** How long after the last key it is looked for, in ms. */
export const TYPED = 200;

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
