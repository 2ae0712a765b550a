// Extracts the entity and its id from an answer of the API.

/** @typedef {import("./types.js").Fields} Fields */

/**
 * Fields of some answers that are not part of the entity, and that no event updates.
 *
 * @type {Record<string, string[]>}
 */
export const BESIDE = {
  thread: [
    ...["result", "produced_by", "notices", "pin", "checkpoint", "thread_id"],
    ...["first_message_id", "mentioned", "not_reached"],
  ],
  message: ["mentioned", "not_reached"],
  gate: ["link"],
};

/**
 * @param {string} kind
 * @param {Fields} fields
 * @returns {Fields}
 */
export function own(kind, fields) {
  const beside = BESIDE[kind]?.filter((name) => name in fields) ?? [];
  if (beside.length === 0) return fields;
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !beside.includes(name)));
}

/**
 * Identifying fields of the kinds of entities without an id.
 *
 * @type {Record<string, (fields: Fields) => string>}
 */
const IDS = {
  budget: (fields) => fields.thread_id,
  result: (fields) => fields.thread_id,
  review_status: (fields) => fields.thread_id,
  land_gate: (fields) => fields.thread_id,
  deferred: (fields) => fields.thread_id,
  boot: (fields) => fields.channel_id,
  // Names of repositories and slots are case-insensitive.
  pause: (fields) => fields.repo.toLowerCase(),
  slot: (fields) => fields.slot.toLowerCase(),
};

/**
 * @param {string} kind
 * @param {Fields} fields
 * @returns {string}
 */
export function idOf(kind, fields) {
  return fields.id ?? IDS[kind](fields);
}
