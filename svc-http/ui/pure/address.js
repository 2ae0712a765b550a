// Addresses of threads and messages, as the API writes them, and of the page to return to after signing in.
//
// Not here: addresses of requests.

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
 * Returns the address of a page within the server, for a sign-in at a provider.
 *
 * Characters that the server rejects are escaped. A fragment that contains them is omitted, and so are query
 * and fragment of an address that is too long.
 *
 * @param {string} page
 * @param {string} service address of the server, without a trailing slash
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
