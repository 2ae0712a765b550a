// Messages of a thread, with the composer.
//
// Guarantees: the newest message is in view at first, unless the address names another one; new messages keep
// it in view for a user who reads the end. Not here: choosing the thread.

import { h } from "../view/node.js";
import { openComposer } from "./composer.js";
import { openTimelineView } from "./timeline.js";

/** Maximum distance to the end at which the user counts as reading the end, in pixels. */
const NEAR = 160;

/**
 * @param {import("../world.js").World} world
 * @param {string} threadId
 * @param {string} fragment
 * @param {{isTalk?: boolean}} [how]
 */
export function openConversation(world, threadId, fragment, how = {}) {
  const composer = openComposer(world, threadId);
  const timeline = openTimelineView(world, threadId, () => fragment, { answer: composer.answer, ...how });
  const wish = world.reads.wish();
  wish.set([`thread/${threadId}`]);
  const root = h("div.stack.conversation", timeline.root, composer.root);
  let isAtEnd = !fragment.startsWith("m-");
  let height = 0;

  /** Returns the element that scrolls: the page on a narrow screen, the timeline otherwise. */
  function scroller() {
    const isOwn = getComputedStyle(timeline.root).overflowY === "auto";
    return isOwn ? timeline.root : /** @type {HTMLElement} */ (document.scrollingElement);
  }
  function scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = scroller();
    isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR;
  }
  window.addEventListener("scroll", scrolled, { passive: true, capture: true });
  if (fragment === "say") requestAnimationFrame(() => composer.focus());

  return {
    root,
    input: composer.input,
    focus: () => composer.focus(),
    reveal: timeline.reveal,
    /** @param {import("../state/store.js").Changes} [changes] */
    show(changes) {
      timeline.show(changes);
      composer.show(world.store.get("thread", threadId));
      const node = scroller();
      const now = node.scrollHeight;
      if (now !== height && isAtEnd) node.scrollTop = now;
      height = now;
    },
    close() {
      window.removeEventListener("scroll", scrolled, { capture: true });
      wish.close();
      timeline.close();
      composer.close();
    },
  };
}
