// The user's unconfirmed changes, drawn over the data of the store.
//
// Guarantees: an overlay is one field of one write; it is removed once the entity is known up to the LSN of
// the answer, or when the write fails, while other overlays of the field stay; the data itself is never
// changed, so nothing needs to be restored.

/** @typedef {import('./types.js').Entity} Entity */
/**
 * @typedef {object} Overlay
 * @property {string} write
 * @property {string} kind
 * @property {string} id
 * @property {string} field
 * @property {any} value new value of the field, or a function of the old value
 * @property {number | null} lsn position of the log in the answer; null before the answer
 */
/** @typedef {{of: Map<string, Overlay[]>}} Overlays overlays by the key of their entity, oldest first */

/** @returns {Overlays} */
export function newOverlays() {
  return { of: new Map() };
}

/**
 * @param {Overlays} overlays
 * @param {{write: string, kind: string, id: string, field: string, value: any}} laid
 */
export function lay(overlays, laid) {
  const key = `${laid.kind}/${laid.id}`;
  overlays.of.set(key, [...(overlays.of.get(key) ?? []), { ...laid, lsn: null }]);
}

/**
 * Records that a write succeeded.
 * @param {Overlays} overlays
 * @param {string} write
 * @param {number} lsn
 */
export function accepted(overlays, write, lsn) {
  for (const [key, above] of overlays.of) {
    if (!above.some((overlay) => overlay.write === write)) continue;
    overlays.of.set(
      key,
      above.map((overlay) => (overlay.write === write ? { ...overlay, lsn } : overlay)),
    );
  }
}

/**
 * Removes the overlays of a write that failed or did not happen.
 * @param {Overlays} overlays
 * @param {string} write
 * @returns {string[]} keys of entities to redraw
 */
export function refused(overlays, write) {
  return take(overlays, (overlay) => overlay.write === write);
}

/**
 * Removes overlays that the data now includes.
 * @param {Overlays} overlays
 * @param {import('./merge.js').World} world
 * @returns {string[]} keys of entities to redraw
 */
export function settle(overlays, world) {
  return take(overlays, ({ kind, id, lsn }) => {
    if (lsn === null) return false;
    const known = world.kinds[kind]?.get(id);
    // A stale entity does not include the effect of the write until it is read again.
    return known ? known.of >= lsn && !known.stale : world.lsn >= lsn;
  });
}

/**
 * @param {Overlays} overlays
 * @param {(overlay: Overlay) => boolean} which
 * @returns {string[]}
 */
function take(overlays, which) {
  const keys = [];
  for (const [key, above] of overlays.of) {
    const left = above.filter((overlay) => !which(overlay));
    if (left.length === above.length) continue;
    keys.push(key);
    if (left.length) overlays.of.set(key, left);
    else overlays.of.delete(key);
  }
  return keys;
}

/**
 * Returns an entity with its overlays applied.
 * @template {Entity} E
 * @param {Overlays} overlays
 * @param {string} kind
 * @param {E} entity
 * @returns {E}
 */
export function over(overlays, kind, entity) {
  const above = overlays.of.get(`${kind}/${entity.id}`);
  if (!above) return entity;
  /** @type {Entity} */
  const drawn = { ...entity };
  for (const { field, value } of above) {
    drawn[field] = typeof value === "function" ? value(drawn[field]) : value;
  }
  return /** @type {E} */ (drawn);
}

/**
 * @param {Overlays} overlays
 * @param {string} kind
 * @param {string} id
 * @returns {{write: string, field: string}[]} what the user changed and the server has not confirmed
 */
export function pending(overlays, kind, id) {
  return (overlays.of.get(`${kind}/${id}`) ?? []).map(({ write, field }) => ({ write, field }));
}
