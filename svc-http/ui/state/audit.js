// The audit rows, newest first: page by page as far as somebody looks.
//
// Promises: a row is there once; newer ones are read up to those that are known; a read that fails can be
// tried again. Leaves out: what fits beside the action, which whoever shows it says.

import { readOnce } from "./reading.js";

/**
 * @typedef {{seq: number, at: string, action: string, actor_id: string | null, subject_id: string | null, grant_id:
 * string | null, metadata: Record<string, any>}} AuditRow
 */

const PAGE = 500;
/** How many pages are read at once for somebody who looks for little. */
const ROUNDS = 8;
const ENOUGH = 100;
const MOST = 10_000;

/**
 * @param {{ask: import("../net/ask.js").Ask}} world
 * @param {{action: string, fits: (row: AuditRow) => boolean}} filter
 * @param {() => void} changed
 */
export function openAudit({ ask }, { action, fits }, changed) {
  /** @type {Map<number, AuditRow>} */
  const rows = new Map();
  const progress = {
    isReading: false,
    /** @type {any} */
    problem: null,
    isAtEnd: false,
    looked: 0,
    /** Whether the last read found anything, so that going on is worth it without being asked. */
    hasFound: true,
  };
  /** @type {string | null} */
  let cursor = null;
  let isBegun = false;
  let newest = 0;
  let isClosed = false;

  /** @param {string | null} at @returns {Promise<{items: AuditRow[], next_cursor: string | null}>} */
  async function page(at) {
    return (await ask("list_audit", { action: action || undefined, limit: PAGE, cursor: at })).body;
  }

  /** @param {AuditRow[]} items */
  function add(items) {
    for (const row of items) if (fits(row)) rows.set(row.seq, row);
    newest = Math.max(newest, items[0]?.seq ?? 0);
  }

  async function readOn() {
    const before = rows.size;
    for (let round = 0; round < ROUNDS && !progress.isAtEnd && rows.size - before < ENOUGH; round += 1) {
      const { items, next_cursor } = await page(cursor);
      if (isClosed) return;
      add(items);
      isBegun = true;
      cursor = next_cursor;
      progress.isAtEnd = next_cursor === null;
      progress.looked += items.length;
      changed();
    }
    progress.hasFound = rows.size > before;
  }

  /** Reads what is above the newest row that is known. */
  async function readNewer() {
    const known = newest;
    /** @type {string | null} */
    let at = null;
    for (let round = 0; round < ROUNDS; round += 1) {
      const { items, next_cursor } = await page(at);
      if (isClosed) return;
      add(items);
      at = next_cursor;
      if (at === null || items.some(({ seq }) => seq <= known)) return;
    }
  }

  /** @param {() => Promise<void>} read */
  const run = (read) => readOnce(progress, read, () => !isClosed && changed());

  const more = async () => {
    if (!progress.isAtEnd && rows.size < MOST) await run(readOn);
  };
  void more();

  return {
    progress,
    more,
    newer: () => run(isBegun ? readNewer : readOn),
    isFull: () => rows.size >= MOST,
    /** What fits, newest first. @returns {AuditRow[]} */
    items: () => [...rows.values()].sort((one, other) => other.seq - one.seq),
    close: () => (isClosed = true),
  };
}
