// Times at which the user's needs arose, from events.
//
// Guarantees: a review need dates from the result, the start of the review, or the request for it; a budget
// need dates from a report of usage; a need from before the first known event has no time.

import { ms } from "./clock.js";
import { placeOf } from "./effects/effect.js";
import { keepNewest } from "./newest.js";

/** @typedef {import("./types.js").LogEvent} LogEvent */

/** @type {Record<string, (payload: any, me: string) => "review" | "budget" | null>} */
const CAUSES = {
  ReviewerAdded: ({ member_id }, me) => (member_id === me ? "review" : null),
  ThreadStateChanged: ({ action }) => (action === "start_review" ? "review" : null),
  ThreadResultSet: () => "review",
  UsageReported: () => "budget",
};

/** Maximum number of times that are kept; more needs are never visible. */
const MOST = 1_000;

/** @param {string} me the signed-in member */
export function createCauses(me) {
  /** @type {Map<string, number>} */
  const since = new Map();
  return {
    /**
     * @param {LogEvent} event
     * @param {(key: string) => boolean} isNeed whether the user already has this need
     */
    note(event, isNeed) {
      const kind = Object.hasOwn(CAUSES, event.kind) ? CAUSES[event.kind](event.payload, me) : null;
      if (!kind) return;
      const { thread, at } = placeOf(event);
      const key = `${kind}/${thread}`;
      // Usage reported after the budget was almost used up did not cause the need.
      if (kind === "budget" && isNeed(key)) return;
      keepNewest(since, key, ms(at) ?? 0, MOST);
    },
    /** Returns the time in ms; null if it is unknown. @param {string} kind @param {string} id */
    of: (kind, id) => since.get(`${kind}/${id}`) ?? null,
  };
}
