// Whom a text mentions, as the service counts it: what stands in code or in a quote mentions nobody.

import { parse } from "./text.js";

/** Those who are meant by what they do, not by their handle. */
export const GROUPS = ["channel", "here"];

const QUOTE = /^ {0,3}>/;
const PUNCTUATION = /[@+:._-]+$/;

/**
 * @param {string} text
 * @param {(handle: string) => boolean} isKnown
 * @returns {{known: string[], unknown: string[]}} handles in lower case without the `@`, each once
 */
export function mentionsIn(text, isKnown) {
  const [known, unknown] = [new Set(), new Set()];
  // Of what stands behind an @ first all is tried, then less and less, because what follows may be punctuation.
  let tried = "";
  const settle = () => {
    const name = tried.replace(PUNCTUATION, "");
    if (name) unknown.add(name);
    tried = "";
  };
  /** @param {string} name */
  const look = (name) => {
    if (tried && !tried.startsWith(name)) settle();
    if (isKnown(name)) {
      known.add(name);
      tried = "";
      return name;
    }
    tried ||= name;
    return null;
  };
  if (text.includes("@")) {
    const said = text.split("\n").filter((line) => !QUOTE.test(line));
    parse(said.join("\n"), { mentions: look });
    settle();
  }
  return { known: [...known], unknown: [...unknown] };
}
