// Which entity a name means.
//
// Promises: an id means itself, and case and accents do not count. Leaves out: where the name was typed.

import { fold } from "../pure/filter.js";

/** An id that nothing has: what a name means that nothing has. */
export const NOBODY = "-";

/**
 * @param {Pick<ReturnType<typeof import("./store.js").createStore>, "get" | "all">} store
 * @param {string} kind
 * @param {string} name
 * @param {(one: any) => string | null} nameOf
 * @returns {string}
 */
export function idNamed(store, kind, name, nameOf) {
  if (name === "" || store.get(kind, name)) return name;
  const found = store.all(kind).find((one) => fold(nameOf(one) ?? "") === fold(name));
  return found?.id ?? NOBODY;
}
