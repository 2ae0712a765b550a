// Marks inbox items of a task as read after their message was in view, and a followed task after its end was.
//
// Guarantees: a message must be in view for a moment, on a page that has the focus; each is marked once. Not
// here: marking by hand, which is an action.

import { actionOf } from "../actions.js";
import { send } from "../act.js";

/** Time that a message must stay in view, in ms. */
const SEEN_AFTER = 1_000;
const AT_ONCE = 100;
/** Value that represents the end of the task among positions in the log. */
const END = 0;

/**
 * @param {import("../world.js").World} world
 * @param {string} threadId
 * @param {HTMLElement} root Element that contains the messages.
 */
export function createReadMarks(world, threadId, root) {
  /** Time since which each position is in view. @type {Map<number, number>} */
  const inSight = new Map();
  /** @type {Set<number>} */
  const marked = new Set();
  const action = actionOf("mark_inbox_read");
  const wish = world.reads.wish();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  wish.set(["list/inbox", "list/follows"]);
  /** Position up to which the followed task has been seen. */
  let seenUpTo = 0;

  /** @param {any} item */
  function isInSight({ message_id }) {
    if (!message_id) return true;
    const node = root.querySelector(`[data-message="${CSS.escape(message_id)}"]`);
    if (!node) return false;
    const { top, bottom } = node.getBoundingClientRect();
    return bottom > 0 && top < innerHeight && bottom > top;
  }

  function look() {
    clearTimeout(timer);
    if (!action || !world.may(action.op) || world.isOffline()) return;
    const isLooked = document.visibilityState === "visible" && document.hasFocus() && root.isConnected;
    const unread = isLooked
      ? world.store
          .all("inbox")
          .filter((one) => one.thread_id === threadId && !one.read && !marked.has(one.lsn))
      : [];
    const now = performance.now();
    const seen = unread.filter((one) => isInSight(one)).map(({ lsn }) => lsn);
    if (isLooked && isAtEnd()) seen.push(END);
    for (const lsn of inSight.keys()) if (!seen.includes(lsn)) inSight.delete(lsn);
    for (const lsn of seen) if (!inSight.has(lsn)) inSight.set(lsn, now);
    const ready = seen.filter((lsn) => now - (inSight.get(lsn) ?? now) >= SEEN_AFTER).slice(0, AT_ONCE);
    if (ready.includes(END)) void see();
    else if (ready.length > 0) void mark(ready);
    else if (seen.length > 0) timer = setTimeout(look, SEEN_AFTER);
  }

  /** Returns whether a followed task has unread messages and its end is in view. */
  function isAtEnd() {
    const follow = world.store.get("follow", threadId);
    if (!follow?.unread || follow.last_lsn <= seenUpTo) return false;
    const nodes = root.querySelectorAll("[data-message]");
    const message_id = nodes[nodes.length - 1]?.getAttribute("data-message");
    return world.store.get("message", message_id)?.lsn >= follow.last_lsn && isInSight({ message_id });
  }

  /** Follows the task again, which marks its messages as read. */
  async function see() {
    seenUpTo = world.store.get("follow", threadId)?.last_lsn ?? 0;
    await world.ask("follow", { target_id: threadId }).catch(() => {});
    world.reads.again("list/follows");
    if (root.isConnected) look();
  }

  /** @param {number[]} lsns */
  async function mark(lsns) {
    for (const lsn of lsns) marked.add(lsn);
    const first = { id: String(lsns[0]), lsn: lsns[0] };
    await send(world, /** @type {import("../actions.js").Action} */ (action), first, { lsns });
    if (root.isConnected) look();
  }

  const events = ["scroll", "focus", "visibilitychange"];
  for (const event of events) window.addEventListener(event, look, { passive: true, capture: true });
  return {
    look,
    close() {
      clearTimeout(timer);
      wish.close();
      for (const event of events) window.removeEventListener(event, look, { capture: true });
    },
  };
}
