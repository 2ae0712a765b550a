// Reads page after page of what is told in pages.
//
// Promises: what was read is said to be all, or not; the position is that of the first page: what changed later is in
// the events. Leaves out: what becomes of it.

import { UNPAGED } from "./entities.js";

export const PAGE = 500;
export const PAGES_MAX = 20;

/** @param {import("../net/ask.js").Ask} ask */
export function createPages(ask) {
  /**
   * Reads page after page. The position that counts is that of the first: what changed later is in the events.
   *
   * @param {string} op
   * @param {Record<string, unknown>} input
   * @param {number} most
   * @param {(body: any) => any[]} [rowsOf]
   */
  return async function pages(op, input, most, rowsOf = ({ items }) => items) {
    const limit = Math.min(PAGE, most);
    const first = await ask(op, { ...input, ...(op in UNPAGED ? {} : { limit }) });
    const items = [...rowsOf(first.body)];
    let cursor = first.body.next_cursor ?? null;
    for (let page = 1; cursor && items.length < most && page < PAGES_MAX; page += 1) {
      const { body } = await ask(op, { ...input, limit, cursor });
      items.push(...rowsOf(body));
      cursor = body.next_cursor ?? null;
    }
    return { body: { items, isWhole: !cursor }, lsn: first.lsn };
  }
}
