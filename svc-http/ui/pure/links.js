// Where a link leads: to the web, or to a thing of the workspace that the board has a screen for.

/**
 * @param {string} text
 * @returns {string | null} the address, if it leads to the web and says plainly where to
 */
export function webAddress(text) {
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  const isWeb = url.protocol === "https:" || url.protocol === "http:";
  // Before an @, a name looks like that of a host.
  return isWeb && url.username === "" && url.password === "" ? url.href : null;
}

/**
 * @param {string} href of a link in Markdown
 * @returns {string | null} the address, if it is of a kind that the page follows
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
 * @returns {Thing | null} what an address of the workspace is of, if the board shows that
 */
export function thingOf(href, workspace) {
  const address = href.toLowerCase();
  const [, kind, id] = SHORT.exec(address) ?? [];
  if (id) return { screen: kind === "threads" ? "task" : "channel", id };
  const [, room, channel, thread, message] = IN_ROOM.exec(address) ?? [];
  if (!room || room !== workspace.toLowerCase()) return null;
  return thread ? { screen: "task", id: thread, message } : { screen: "channel", id: channel };
}
