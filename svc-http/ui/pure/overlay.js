// What I have done and the server has not confirmed yet, drawn over what is known.
//
// An overlay is of one field and of one write of mine. It goes when what is known has come to the LSN of the answer,
// or when the write is refused; then that one alone goes, and others over the same field stay. What is known is
// never changed, so nothing has to be put back.

/** @typedef {import('./types.js').Entity} Entity */
/**
 * @typedef {object} Overlay
 * @property {string} write
 * @property {string} kind
 * @property {string} id
 * @property {string} field
 * @property {any} value what the field is, or a function of what it was
 * @property {number | null} lsn where the log was when the write was answered; null until then
 */
/** @typedef {{of: Map<string, Overlay[]>}} Overlays by the key of the entity, the oldest first */

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
 * The write was done.
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
 * The write was refused, or it is known not to have happened.
 * @param {Overlays} overlays
 * @param {string} write
 * @returns {string[]} keys of what is drawn differently now
 */
export function refused(overlays, write) {
  return take(overlays, (overlay) => overlay.write === write);
}

/**
 * Takes away what is known by now.
 * @param {Overlays} overlays
 * @param {import('./merge.js').World} world
 * @returns {string[]} keys of what is drawn differently now
 */
export function settle(overlays, world) {
  return take(overlays, ({ kind, id, lsn }) => {
    if (lsn === null) return false;
    const known = world.kinds[kind]?.get(id);
    // What is stale has still to be read before it says what the write has done.
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
 * An entity as it is drawn.
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
 * @returns {{write: string, field: string}[]} what of mine is not confirmed
 */
export function pending(overlays, kind, id) {
  return (overlays.of.get(`${kind}/${id}`) ?? []).map(({ write, field }) => ({ write, field }));
}
