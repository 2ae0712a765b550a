// When a need came to be, as far as an event says it: a review is awaited from the result, the beginning of the review, or
// being asked for it; of a budget little is left from a report of usage.
//
// What has happened before the events that were seen is not known, and nothing is put in its place.

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

/** More are never in sight. */
const MOST = 1_000;

/** @param {string} me the member who is signed in */
export function createCauses(me) {
  /** @type {Map<string, number>} */
  const since = new Map();
  return {
    /**
     * @param {LogEvent} event
     * @param {(key: string) => boolean} isNeed whether one has this need already
     */
    note(event, isNeed) {
      const kind = Object.hasOwn(CAUSES, event.kind) ? CAUSES[event.kind](event.payload, me) : null;
      if (!kind) return;
      const { thread, at } = placeOf(event);
      const key = `${kind}/${thread}`;
      // What is used after little was left has not caused it.
      if (kind === "budget" && isNeed(key)) return;
      keepNewest(since, key, ms(at) ?? 0, MOST);
    },
    /** In ms; null if it is not known. @param {string} kind @param {string} id */
    of: (kind, id) => since.get(`${kind}/${id}`) ?? null,
  };
}
