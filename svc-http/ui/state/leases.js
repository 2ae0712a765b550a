// The total length of leases, from events: a task contains only the end of its lease.
//
// Guarantees: the length of a lease that began before the page was opened is unknown until it is renewed; the
// oldest entries are dropped, so the page can stay open for weeks. Not here: the end of a lease, which the
// task contains.

import { ms } from "../pure/clock.js";
import { placeOf } from "../pure/merge.js";
import { keepNewest } from "../pure/newest.js";

const BEGIN = new Set(["ThreadAssignmentChanged", "ClaimRenewed"]);
/** Maximum leases that are kept. */
const MOST = 1_000;

/** @param {{index: (index: (changes: {events: any[]}) => void) => unknown}} store */
export function createLeases({ index }) {
  /** @type {Map<string, {until: number, whole: number}>} */
  const known = new Map();

  /** @param {import("../pure/types.js").LogEvent} event */
  function note(event) {
    const until = ms(event.payload.expires_at);
    if (!BEGIN.has(event.kind) || until === null) return;
    const { thread, at } = placeOf(event);
    keepNewest(known, thread, { until, whole: until - (ms(at) ?? until) }, MOST);
  }
  index(({ events }) => events.forEach(note));

  /**
   * Returns the total length of a task's lease in milliseconds, or undefined if it is unknown.
   *
   * @param {any} thread
   */
  return ({ id, assignment_expires_at }) => {
    const lease = known.get(id);
    return lease?.until === ms(assignment_expires_at) ? lease?.whole : undefined;
  };
}
