// Effects of an event on the store: the forms in which the cases are written.

/** @typedef {import('../types.js').Entity} Entity */
/** @typedef {import('../types.js').Fields} Fields */
/** @typedef {import('../types.js').LogEvent} LogEvent */
/** @typedef {import('../merge.js').World} World */

/**
 * @typedef {object} Does
 * @property {Fields | ((before: Entity) => Fields)} [patch] new values of fields
 * @property {boolean} [stale] whether something changed that the event does not contain
 * @property {boolean} [gone] whether the entity is removed
 */
/**
 * @typedef {{on: string, id: string, make?: Fields} & Does} One effect on one entity, which is created from
 * `make` if it is unknown
 */
/**
 * @typedef {{each: string, where: (known: Entity) => boolean} & Does} Each effect on all entities of a kind
 * that match
 */
/** @typedef {{list: string}} List effect on a list, which must be read again */
/** @typedef {One | Each | List} Effect */

/**
 * @typedef {object} Place channel, thread, time and actor of an event
 * @property {number} lsn
 * @property {string} at
 * @property {string} workspace
 * @property {string} channel empty if the event has none
 * @property {string} thread empty if the event has none
 * @property {string | null} by the member on whose behalf it was done; null for the server
 * @property {boolean} delegated
 */
/** @typedef {(payload: any, place: Place, world: World, event: LogEvent) => Effect[]} Case */

/**
 * Formats a time as the API does.
 * @param {number} micros microseconds since 1970
 * @returns {string}
 */
export function iso(micros) {
  const whole = Math.floor(micros / 1000);
  const rest = String(micros - whole * 1000).padStart(3, "0");
  return new Date(whole).toISOString().replace("Z", `${rest}Z`);
}

/**
 * @param {LogEvent} event
 * @returns {Place}
 */
export function placeOf(event) {
  const { $chain: chain, attribution } = event.payload;
  return {
    lsn: event.lsn,
    at: iso(chain.at),
    workspace: chain.workspace_id,
    channel: chain.channel_id ?? "",
    thread: chain.thread_id ?? "",
    by: attribution?.subject_id ?? null,
    delegated: attribution?.actor_id !== attribution?.subject_id,
  };
}

/**
 * @param {string} on
 * @param {string} id
 * @returns {One}
 */
export function stale(on, id) {
  return { on, id, stale: true };
}

/**
 * @param {string} each
 * @param {(known: Entity) => boolean} [where]
 * @returns {Each}
 */
export function staleEach(each, where = () => true) {
  return { each, where, stale: true };
}

/**
 * @param {string} on
 * @param {string} id
 * @param {Fields | ((before: Entity) => Fields)} fields
 * @returns {One}
 */
export function patch(on, id, fields) {
  return { on, id, patch: fields };
}

/**
 * Sets all fields of an entity, known or not.
 * @param {string} on
 * @param {string} id
 * @param {Fields} fields
 * @returns {One}
 */
export function set(on, id, fields) {
  return { on, id, make: fields, patch: fields };
}

/**
 * @param {...string} names
 * @returns {List[]}
 */
export function lists(...names) {
  return names.map((list) => ({ list }));
}
