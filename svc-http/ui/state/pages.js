// Reads lists page by page.
//
// Guarantees: the result says whether the list is complete; its position is that of the first page, since
// later changes arrive as events. Not here: storing the result.

import { UNPAGED } from "./entities.js";

export const PAGE = 500;
export const PAGES_MAX = 20;

/** @param {import("../net/ask.js").Ask} ask */
export function createPages(ask) {
  /**
   * Reads the pages of a list, up to `most` rows. The result has the position of the first page, since later
   * changes arrive as events.
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
