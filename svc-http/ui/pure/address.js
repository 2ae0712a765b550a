// Addresses of things in a workspace, as the API writes them: names that are cited and copied, and nothing that is asked
// for; and of a page, as the service takes it.

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

const RETURN_MAX = 512;

/** @param {string} one */
const escaped = (one) => `%${one.charCodeAt(0).toString(16).padStart(2, "0")}`;

/**
 * The address of a page within the service, for after a sign-in elsewhere, in the characters that the service takes. What
 * it would not take is left out: then one comes back to less, but one comes back.
 * @param {string} page
 * @param {string} service the address of the service, without a slash at its end
 * @returns {string}
 */
export function returnTo(page, service) {
  const { pathname, search, hash } = new URL(page);
  const path = pathname.slice(new URL(`${service}/`).pathname.length - 1);
  const query = search.slice(1).replace(/[^A-Za-z0-9._~=&%+:@,-]/g, escaped);
  const rest = [query && `?${query}`, /^#[A-Za-z0-9._~/=-]+$/.test(hash) ? hash : ""];
  const whole = path + rest.join("");
  return whole.length <= RETURN_MAX ? whole : path;
}
