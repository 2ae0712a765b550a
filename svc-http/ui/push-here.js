// Notifications of this browser: its subscription at its push service, and the worker that shows what comes.
//
// Promises: notifications are of who is signed in: when they sign out or another signs in, the subscription
// ends here, and the service learns that from the push service. Leaves out: telling the service of a
// subscription, and what is notified.

import { ownScript } from "./net/script.js";
import { hrefOf } from "./router.js";
import { pushedTo } from "./state/seen.js";

/** Where the worker is: beside the screens, whose folder is what it works for. */
const WORKER = new URL(hrefOf("push.js"), location.href);
const SCOPE = hrefOf("");

/** @typedef {"on" | "off" | "denied" | "insecure" | "unsupported"} Standing */

/** @returns {Promise<{standing: Standing, endpoint: string | null}>} */
export async function pushHere() {
  if (!isSecureContext) return { standing: "insecure", endpoint: null };
  if (!("serviceWorker" in navigator && "PushManager" in window && "Notification" in window))
    return { standing: "unsupported", endpoint: null };
  const endpoint = (await subscription())?.endpoint ?? null;
  if (Notification.permission === "denied") return { standing: "denied", endpoint };
  return { standing: endpoint ? "on" : "off", endpoint };
}

async function subscription() {
  const registration = await navigator.serviceWorker.getRegistration(SCOPE);
  return (await registration?.pushManager.getSubscription()) ?? null;
}

/**
 * Subscribes this browser, once its reader has allowed it.
 *
 * @param {string} key The key that the service signs with.
 * @param {string} memberId Whose notifications come.
 * @returns {Promise<PushSubscriptionJSON | null>} Null: it was not allowed.
 */
export async function subscribe(key, memberId) {
  if ((await Notification.requestPermission()) !== "granted") return null;
  await navigator.serviceWorker.register(ownScript(WORKER), { scope: SCOPE });
  const { pushManager } = await navigator.serviceWorker.ready;
  // One for another key of the service is of no use any more.
  const old = await pushManager.getSubscription();
  if (old && keyOf(old) !== key) await old.unsubscribe();
  const made = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  pushedTo.set(memberId);
  return made.toJSON();
}

/** @param {PushSubscription} subscription */
function keyOf({ options }) {
  const bytes = new Uint8Array(options.applicationServerKey ?? new ArrayBuffer(0));
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** Ends what comes to this browser. */
export async function unsubscribe() {
  pushedTo.set(null);
  try {
    const registration = await navigator.serviceWorker?.getRegistration(SCOPE);
    await (await registration?.pushManager.getSubscription())?.unsubscribe();
    await registration?.unregister();
  } catch {
    // A browser that cannot say has none.
  }
}

/** Ends the notifications of anybody but this member. @param {string | null} memberId */
export async function keepPushOf(memberId) {
  const owner = pushedTo.get();
  if (owner && owner !== memberId) await unsubscribe();
}

/**
 * Calls back with an address of ours, when a notification was pressed that is about it.
 *
 * @param {(href: string) => void} open
 */
export function watchPush(open) {
  navigator.serviceWorker?.addEventListener("message", ({ data }) => {
    const href = typeof data?.open === "string" ? data.open : "";
    if (href.startsWith(new URL(SCOPE, location.href).href)) open(href);
  });
}
