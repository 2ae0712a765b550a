// What is said in a thread, with the field to say more.
//
// Promises: the last word is in sight when it is opened, unless the address names another; what arrives keeps
// it so for whoever reads the end. Leaves out: which thread.

import { h } from "../view/node.js";
import { openComposer } from "./composer.js";
import { openTimelineView } from "./timeline.js";

/** From so near to the end on, one reads the end. */
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

  const page = () => /** @type {HTMLElement} */ (document.scrollingElement);
  function scrolled() {
    isAtEnd = page().scrollHeight - page().scrollTop - page().clientHeight < NEAR;
  }
  window.addEventListener("scroll", scrolled, { passive: true });
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
      const now = page().scrollHeight;
      if (now !== height && isAtEnd) page().scrollTop = now;
      height = now;
    },
    close() {
      window.removeEventListener("scroll", scrolled);
      wish.close();
      timeline.close();
      composer.close();
    },
  };
}
