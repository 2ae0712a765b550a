// The service worker: shows pushed notifications, and opens the entity that a notification is about.
//
// Guarantees: a notification contains only text that the server sent; nothing is stored, and requests of the
// page do not pass through here. Not here: subscribing, which the settings do.

/**
 * @typedef {{
 *   thread_id: string | null, thread: string | null, channel: string | null, channel_id: string, message_id: string | null,
 *   actor: string | null, preview: string | null, at: string, count: number,
 * }} Pushed
 */

/** @type {any} */
const worker = self;

/** Invisible characters, and those that change the text direction. */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g;

worker.addEventListener("install", () => worker.skipWaiting());

worker.addEventListener("push", (/** @type {any} */ event) => {
  event.waitUntil(tell(read(event.data)));
});

worker.addEventListener("notificationclick", (/** @type {any} */ event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data?.place ?? ""));
});

/**
 * @param {any} data
 * @returns {Pushed | null} Null if the data cannot be read; a notification is shown even then.
 */
function read(data) {
  try {
    const read = data.json();
    return read && typeof read === "object" ? read : null;
  } catch {
    return null;
  }
}

/** @param {unknown} text */
const plain = (text) => (typeof text === "string" ? text.replace(UNSEEN, " ") : "");

/** @param {Pushed | null} pushed */
function tell(pushed) {
  const { thread, channel, actor, preview, count, at } = pushed ?? {};
  const title = plain(thread) || (channel ? `#${plain(channel)}` : plain(actor)) || worker.location.host;
  const counted = count && count > 1 ? `${title} (${count})` : title;
  return worker.registration.showNotification(counted, {
    body: [plain(actor), plain(preview)].filter(Boolean).join(": "),
    tag: pushed?.thread_id ?? pushed?.channel_id ?? "",
    timestamp: Date.parse(at ?? "") || undefined,
    dir: "auto",
    data: { place: pushed ? placeOf(pushed) : "" },
  });
}

/**
 * Returns the path of the screen that a notification is about, relative to the scope.
 *
 * @param {Pushed} pushed
 */
function placeOf({ thread_id: thread, channel_id: channel, message_id: message }) {
  if (!thread) return `c/${encodeURIComponent(channel)}`;
  return `t/${encodeURIComponent(thread)}${message ? `#m-${encodeURIComponent(message)}` : ""}`;
}

/** Opens a path, on a page that is already open if there is one. @param {string} place */
async function open(place) {
  const { href } = new URL(place, worker.registration.scope);
  const pages = await worker.clients.matchAll({ type: "window", includeUncontrolled: true });
  const page = pages.find((/** @type {any} */ { url }) => url.startsWith(worker.registration.scope));
  if (!page) return worker.clients.openWindow(href);
  page.postMessage({ open: href });
  await page.focus();
}
