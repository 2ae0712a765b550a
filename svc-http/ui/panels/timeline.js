// Timeline of a task: its messages and events, in order.
//
// Guarantees: new rows are added at the end, so that nothing moves; a message changes in place, and the
// message under the pointer stays there; the address of a message leads to it. Not here: reading the timeline
// (state/timeline.js).

import { acting, actorOf, eventParts, task as say } from "../strings/en.js";
import { marked } from "../marked.js";
import { hrefTo } from "../names.js";
import { ALL } from "../state/store.js";
import { openTimeline } from "../state/timeline.js";
import { button, h, keyed, link, setAttr, setChildren, setText, show } from "../view/node.js";
import { nodesOf } from "../view/parts.js";
import { steadily } from "../view/steady.js";
import { createMessages, stampOf } from "./message.js";
import { createReadMarks } from "./read-marks.js";

/** @typedef {import("../world.js").World} World */
/** @typedef {import("../state/timeline.js").Item} Item */

/** Number of rows shown at first, and added per press. */
const SHOWN = 200;
const MORE = 300;

/**
 * @param {World} world
 * @param {string} threadId
 * @param {() => string} fragment Returns the fragment of the address.
 * @param {{answer?: (id: string) => void, isTalk?: boolean}} [how] `answer`: begins a reply to a message;
 * `isTalk`: the thread is not a task, so only messages are shown.
 */
export function openTimelineView(world, threadId, fragment, how = {}) {
  const { store } = world;
  const list = h("ol.timeline", { "aria-label": say.timeline });
  const earlier = button("", () => ((count += MORE), draw()), { class: "link", hidden: true });
  const status = h("p.quiet.small", { hidden: true });
  const root = h(
    "section.stack",
    { "aria-label": say.timeline },
    h(how.isTalk ? "h2.heard" : "h2", say.timeline),
    status,
    earlier,
    list,
  );
  const messages = createMessages(world, how);
  const marks = createReadMarks(world, threadId, list);
  let count = SHOWN;
  let isRevealed = false;
  const release = world.sweep.hold(threadId);
  const timeline = openTimeline(world, threadId, () => store.touch([`timeline/${threadId}`]));
  /**
   * Data that each event row was drawn from, so that only changed rows are redrawn.
   *
   * @type {WeakMap<HTMLElement, unknown>}
   */
  const drawn = new WeakMap();

  function draw() {
    const items = how.isTalk ? timeline.items().filter(({ message }) => message) : timeline.items();
    const from = Math.max(0, items.length - count);
    show(earlier, from > 0);
    setText(earlier, say.earlier(Math.min(MORE, from)));
    const { isReading, isWhole, hasFailed } = timeline.progress;
    show(status, isReading || hasFailed || (!isWhole && from === 0));
    setText(status, hasFailed ? say.notRead : isReading ? say.readingEarlier : say.olderNotShown);
    status.classList.toggle("later", isReading);
    for (const { event } of items) if (event) messages.note(event);
    messages.look(items.slice(from).flatMap(({ message }) => message ?? []));
    const shown = [...items.slice(from), ...pending()];
    const rows = { key: (/** @type {Item} */ { key }) => key, make, update };
    steadily(list, () => keyed(list, shown, rows));
    if (!isRevealed && !isReading) {
      isRevealed = true;
      reveal(fragment());
    }
    if (!isReading) marks.look();
  }

  /** Returns the user's messages in flight, shown at the end until their events arrive. @returns {Item[]} */
  function pending() {
    return world.outbox
      .open(`composer/${threadId}`)
      .filter(({ early }) => !early)
      .map(({ id, input }) => ({
        key: `w${id}`,
        lsn: Infinity,
        message: null,
        event: null,
        words: String(input.body),
      }));
  }

  /** @param {Item} item */
  function make(item) {
    if (item.words !== undefined) {
      return h(
        "li.message.pending",
        h("p.quiet.small", acting.asking),
        marked(world, item.words, {
          of: `composer/${threadId}`,
          channel: store.get("thread", threadId)?.channel_id,
        }),
      );
    }
    return item.message ? messages.make(item.message) : h("li.event");
  }

  /** @param {HTMLElement} node @param {Item} item */
  function update(node, item) {
    if (item.words !== undefined) return;
    if (!item.message) return updateEvent(node, item.event);
    messages.update(node, item.message);
  }

  /** @param {HTMLElement} node @param {any} event */
  function updateEvent(node, event) {
    const actor = actorOf(event);
    const state = `${store.get("member", actor)?.of} ${store.count("thread")}`;
    if (drawn.get(node) === state) return;
    drawn.set(node, state);
    setAttr(node, "data-event", event.lsn);
    const at = event.payload.$chain.at / 1_000;
    setChildren(node, [
      // The sentence of an event without an actor is complete.
      ...(actor ? [world.names.member(actor), " "] : []),
      ...nodesOf(eventParts(event), world.names),
      " ",
      link(hrefTo("log", {}, `#${event.lsn}`) ?? "", { class: "quiet" }, stampOf(world, at)),
    ]);
  }

  /** @param {string} name */
  function reveal(name) {
    if (!name.startsWith("m-")) return;
    const items = timeline.items();
    const at = items.findIndex(({ message }) => message === name.slice(2));
    if (at < 0) return;
    if (items.length - at > count) {
      count = items.length - at + 20;
      draw();
    }
    const node = list.querySelector(`[data-message="${CSS.escape(name.slice(2))}"]`);
    if (!(node instanceof HTMLElement)) return;
    for (const other of list.querySelectorAll(".meant")) other.classList.remove("meant");
    node.classList.add("meant");
    node.tabIndex = -1;
    node.focus({ preventScroll: true });
    node.scrollIntoView({ block: "center" });
  }

  return {
    root,
    /** @param {import("../state/store.js").Changes} [changes] */
    show(changes) {
      if (changes) timeline.take(changes);
      if (changes?.lists.has(ALL)) timeline.again();
      draw();
    },
    reveal,
    close() {
      release();
      messages.close();
      marks.close();
      timeline.close();
    },
  };
}
