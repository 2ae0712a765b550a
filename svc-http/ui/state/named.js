// Resolves a name to the id of an entity.
//
// Guarantees: an id resolves to itself; case and accents are ignored. Not here: the field in which the name
// was typed.

import { fold } from "../pure/filter.js";

/** An id that no entity has, returned for unknown names. */
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
