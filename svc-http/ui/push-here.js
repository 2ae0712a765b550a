// Push notifications of this browser: its subscription, and the service worker that shows them.
//
// Guarantees: notifications belong to the signed-in member: when that member signs out or another one signs
// in, the subscription is removed here, and the server learns of it from the push service. Not here:
// subscribing (panels/settings/subscription.js), and the choice of notifications.

import { hrefOf } from "./router.js";
import { pushedTo } from "./state/seen.js";

/** Scope of the service worker: the folder of the screens. */
export const SCOPE = hrefOf("");

/** Removes the subscription and the service worker of this browser. */
export async function unsubscribe() {
  pushedTo.set(null);
  try {
    const registration = await navigator.serviceWorker?.getRegistration(SCOPE);
    await (await registration?.pushManager.getSubscription())?.unsubscribe();
    await registration?.unregister();
  } catch {
    // A browser that rejects these calls has no subscription.
  }
}

/** Removes the subscription of any member other than this one. @param {string | null} memberId */
export async function keepPushOf(memberId) {
  const owner = pushedTo.get();
  if (owner && owner !== memberId) await unsubscribe();
}

/**
 * Calls back with the URL of the board that a pressed notification refers to.
 *
 * @param {(href: string) => void} open
 */
export function watchPush(open) {
  navigator.serviceWorker?.addEventListener("message", ({ data }) => {
    const href = typeof data?.open === "string" ? data.open : "";
    if (href.startsWith(new URL(SCOPE, location.href).href)) open(href);
  });
}
