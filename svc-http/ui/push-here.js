// Notifications of this browser: its subscription at its push service, and the worker that shows what comes.
//
// Promises: notifications are of who is signed in: when they sign out or another signs in, the subscription
// ends here, and the service learns that from the push service. Leaves out: subscribing
// (panels/settings/subscription.js), and what is notified.

import { hrefOf } from "./router.js";
import { pushedTo } from "./state/seen.js";

/** Where the worker works: the folder of the screens. */
export const SCOPE = hrefOf("");

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
