// Whom a text mentions, as the service counts it: the rule stands in handles.js.

import { parse } from "./text.js";

/** Those who are meant by what they do, not by their handle. */
export const GROUPS = ["channel", "here"];

/**
 * @param {string} text
 * @param {(handle: string) => boolean} isKnown
 * @returns {{known: string[], unknown: string[]}} handles in lower case without the `@`, each once
 */
export function mentionsIn(text, isKnown) {
  const [known, unknown] = [new Set(), new Set()];
  if (/[@＠]/.test(text)) {
    parse(text, {
      mentions: (name) => (isKnown(name) ? (known.add(name), name) : null),
      missed: (written) => void unknown.add(written.slice(1).toLowerCase()),
    });
  }
  return { known: [...known], unknown: [...unknown] };
}
