// The audit rows, newest first, read page by page on demand.
//
// Guarantees: each row is listed once; newer rows are read down to the newest known one; a failed read can be
// retried. Not here: the filter beyond the action, which the caller supplies.

import { readOnce } from "./reading.js";

/**
 * @typedef {{seq: number, at: string, action: string, actor_id: string | null, subject_id: string | null, grant_id:
 * string | null, metadata: Record<string, any>}} AuditRow
 */

const PAGE = 500;
/** Maximum pages per read; a read ends earlier once it has found `ENOUGH` matching rows. */
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
    /** Whether the last read found matching rows, so that the next one may start automatically. */
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

  /** Reads the rows that are newer than the newest known one. */
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
    /** Returns the matching rows, newest first. @returns {AuditRow[]} */
    items: () => [...rows.values()].sort((one, other) => other.seq - one.seq),
    close: () => (isClosed = true),
  };
}
