// How long leases are in all, which events say: a task says only when its lease ends.
//
// Promises: of a lease that began before the page was there nothing is known until it is renewed, and nothing
// is put in its place; those that began longest ago are forgotten, so that a page can be open for weeks.
// Leaves out: when a lease ends, which tasks say.

import { ms } from "../pure/clock.js";
import { placeOf } from "../pure/merge.js";
import { keepNewest } from "../pure/newest.js";

const BEGIN = new Set(["ThreadAssignmentChanged", "ClaimRenewed"]);
/** More are never in sight. */
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

  /** How long the lease of a task is in all, in ms, if that is known. @param {any} thread */
  return ({ id, assignment_expires_at }) => {
    const lease = known.get(id);
    return lease?.until === ms(assignment_expires_at) ? lease?.whole : undefined;
  };
}
