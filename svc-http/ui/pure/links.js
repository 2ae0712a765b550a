// Target of a link: a web address, or a thread or channel that the board has a screen for.

/**
 * @param {string} text
 * @returns {string | null} the address, if it is a web address without credentials
 */
export function webAddress(text) {
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  const isWeb = url.protocol === "https:" || url.protocol === "http:";
  // A user name before an @ can look like the host.
  return isWeb && url.username === "" && url.password === "" ? url.href : null;
}

/**
 * @param {string} href target of a Markdown link
 * @returns {string | null} the address, if the page follows its scheme
 */
export function followed(href) {
  return /^(?:mailto|svc):/i.test(href) && URL.canParse(href) ? href : webAddress(href);
}

const ID = "[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}";
const IN_ROOM = new RegExp(`^svc://(${ID})/channels/(${ID})(?:/threads/(${ID})(?:/messages/(${ID}))?)?$`);
const SHORT = new RegExp(`^svc://(channels|threads)/(${ID})$`);

/**
 * @typedef {{screen: "task", id: string, message?: string} | {screen: "channel", id: string}} Thing
 */

/**
 * @param {string} href
 * @param {string} workspace
 * @returns {Thing | null} what the address refers to, if the board can show it; null otherwise
 */
export function thingOf(href, workspace) {
  const address = href.toLowerCase();
  const [, kind, id] = SHORT.exec(address) ?? [];
  if (id) return { screen: kind === "threads" ? "task" : "channel", id };
  const [, room, channel, thread, message] = IN_ROOM.exec(address) ?? [];
  if (!room || room !== workspace.toLowerCase()) return null;
  return thread ? { screen: "task", id: thread, message } : { screen: "channel", id: channel };
}
