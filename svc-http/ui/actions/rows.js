// Helpers for rows of the action table.
//
// Not here: the rows.

import { isDone } from "../pure/lanes.js";

/** @typedef {import("../actions.js").Action} Action */

/** @param {any} thread */
export const ofThread = (thread) => ({ thread_id: thread.id });
/**
 * @param {string} kind
 * @param {(payload: any, input: any, event: any) => boolean} [same]
 * @returns {Action["leaves"]}
 */
export const leaves =
  (kind, same = () => true) =>
  (event, input) => {
    const of = event.payload.$chain?.thread_id;
    const isThere = !input.thread_id || !of || of === input.thread_id;
    return event.kind === kind && isThere && same(event.payload, input, event);
  };

/**
 * Builds an action that follows or unfollows a task or a channel. No event reports the change, so its result
 * is taken from the answer.
 *
 * @param {string} id
 * @param {"thread" | "channel"} on
 * @param {boolean} isFollow
 * @returns {Action}
 */
export const following = (id, on, isFollow) => ({
  id,
  op: isFollow ? "follow" : "unfollow",
  on,
  when: (entity, { store }) => (entity.followed ?? store.get("follow", entity.id) !== undefined) !== isFollow,
  fill: (entity) => ({ target_id: entity.id }),
  optimistic: (entity) => [{ kind: on, id: entity.id, field: "followed", value: isFollow }],
});

/**
 * @param {string} op
 * @param {string[]} fields
 * @param {Partial<Action>} [more]
 * @returns {Action}
 */
export const setting = (op, fields, more = {}) => ({
  id: op,
  op,
  on: "thread",
  when: (thread) => !isDone(thread),
  fill: ofThread,
  fields,
  now: (thread) => Object.fromEntries(fields.map((name) => [name, thread[name]])),
  ...more,
});
