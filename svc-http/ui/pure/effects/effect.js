// What an event does to what is known: the few forms that the cases are written in.

/** @typedef {import('../types.js').Entity} Entity */
/** @typedef {import('../types.js').Fields} Fields */
/** @typedef {import('../types.js').LogEvent} LogEvent */
/** @typedef {import('../merge.js').World} World */

/**
 * @typedef {object} Does
 * @property {Fields | ((before: Entity) => Fields)} [patch] fields that are known from now on
 * @property {boolean} [stale] something changed that the event does not carry
 * @property {boolean} [gone] it is no more
 */
/** @typedef {{on: string, id: string, make?: Fields} & Does} One of one entity; it is made of `make` if it is unknown */
/** @typedef {{each: string, where: (known: Entity) => boolean} & Does} Each of all entities of a kind that fit */
/** @typedef {{list: string}} List of a list that only a read can tell */
/** @typedef {One | Each | List} Effect */

/**
 * @typedef {object} Place where and when an event happened, and who did it
 * @property {number} lsn
 * @property {string} at
 * @property {string} workspace
 * @property {string} channel empty outside of one
 * @property {string} thread empty outside of one
 * @property {string | null} by the member as whom it was done; null for the service
 * @property {boolean} delegated
 */
/** @typedef {(payload: any, place: Place, world: World, event: LogEvent) => Effect[]} Case */

/**
 * A time as the API writes it.
 * @param {number} micros since 1970
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
 * Everything of an entity, known before or not.
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
