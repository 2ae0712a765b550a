// Addresses of things in a workspace, as the API writes them: names that are cited and copied, and nothing that is asked for.

/** @typedef {import("./effects/effect.js").Place} Place */

/**
 * @param {Place} place
 * @returns {string}
 */
export function threadAddress({ workspace, channel, thread }) {
  return `svc://${workspace}/channels/${channel}/threads/${thread}`;
}

/**
 * @param {Place} place
 * @param {string} id
 * @returns {string}
 */
export function messageAddress(place, id) {
  return `${threadAddress(place)}/messages/${id}`;
}
