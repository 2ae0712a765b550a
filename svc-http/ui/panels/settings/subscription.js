// Subscription of this browser at its push service.
//
// Guarantees: a subscription is created after the user has allowed it, for the server's signing key. Not
// here: registering the subscription at the server, and ending it (push-here.js).

import { ownScript } from "../../net/script.js";
import { SCOPE } from "../../push-here.js";
import { hrefOf } from "../../router.js";
import { pushedTo } from "../../state/seen.js";

/** Address of the service worker, in the folder of the board. */
const WORKER = new URL(hrefOf("push.js"), location.href);

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
 * Subscribes this browser after asking the user for permission.
 *
 * @param {string} key Public key of the server's signatures.
 * @param {string} memberId Member whose notifications this browser receives.
 * @returns {Promise<PushSubscriptionJSON | null>} Null if the user did not allow it.
 */
export async function subscribe(key, memberId) {
  if ((await Notification.requestPermission()) !== "granted") return null;
  await navigator.serviceWorker.register(ownScript(WORKER), { scope: SCOPE });
  const { pushManager } = await navigator.serviceWorker.ready;
  // A subscription for another key of the server is useless.
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
