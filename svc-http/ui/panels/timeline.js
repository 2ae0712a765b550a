// What was said and what happened in a task, in one line of time.
//
// Promises: what arrives is put at the end, so that nothing moves that one reads; a message changes in place;
// an address of a message leads to it. Leaves out: reading it (state/timeline.js).

import { time, dateTime, relative } from "../pure/format.js";
import { ms } from "../pure/clock.js";
import { acting, eventParts, task as say } from "../strings/en.js";
import { openMenu } from "../later.js";
import { ALL } from "../state/store.js";
import { openTimeline } from "../state/timeline.js";
import { toldBeside } from "../told.js";
import { marked } from "../view/marked.js";
import { button, h, keyed, setAttr, setChildren, setText, show } from "../view/node.js";
import { nodesOf } from "../view/parts.js";
import { blockNode } from "./blocks.js";

/** @typedef {import("../world.js").World} World */
/** @typedef {import("../state/timeline.js").Item} Item */

/** How many are shown, and how many more at a press. */
const SHOWN = 200;
const MORE = 300;

/**
 * @param {World} world
 * @param {string} threadId
 * @param {() => string} fragment What the address is of.
 */
export function openTimelineView(world, threadId, fragment) {
  const { store } = world;
  const list = h("ol.timeline", { "aria-label": say.timeline });
  const earlier = button("", () => ((count += MORE), draw()), { class: "link", hidden: true });
  const status = h("p.quiet.small", { hidden: true });
  const root = h(
    "section.stack",
    { "aria-label": say.timeline },
    h("h2", say.timeline),
    status,
    earlier,
    list,
  );
  let count = SHOWN;
  let isRevealed = false;
  const release = world.sweep.hold(threadId);
  const timeline = openTimeline(world, threadId, () => store.touch([`timeline/${threadId}`]));
  /**
   * What each row was drawn of, so that only what has changed is drawn.
   *
   * @type {WeakMap<HTMLElement, unknown>}
   */
  const drawn = new WeakMap();

  function draw() {
    const items = timeline.items();
    const from = Math.max(0, items.length - count);
    show(earlier, from > 0);
    setText(earlier, say.earlier(Math.min(MORE, from)));
    const { isReading, hasFailed } = timeline.progress;
    show(status, isReading || hasFailed);
    setText(status, hasFailed ? say.notRead : say.readingEarlier);
    status.classList.toggle("later", isReading);
    const shown = [...items.slice(from), ...pending()];
    keyed(list, shown, { key: ({ key }) => key, make: (item) => make(item), update });
    if (!isRevealed && !isReading) {
      isRevealed = true;
      reveal(fragment());
    }
  }

  /** Own words that are on their way stand at the end. @returns {Item[]} */
  function pending() {
    return world.outbox
      .about(`composer/${threadId}`)
      .filter(({ state }) => state === "asking" || state === "unknown")
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
        marked(item.words, { names: world.names.marks }),
      );
    }
    return item.message
      ? h("li.message", { "data-message": item.message, id: `m-${item.message}` })
      : h("li.event");
  }

  /** @param {HTMLElement} node @param {Item} item */
  function update(node, item) {
    if (item.words !== undefined) return;
    if (!item.message) return updateEvent(node, item.event);
    const message = store.get("message", item.message);
    const author = store.get("member", message?.author_id);
    const writes = world.outbox.about(`message/${item.message}`).length;
    const before = /** @type {any} */ (drawn.get(node));
    if (before && before.message === message && before.author === author && writes + before.writes === 0)
      return;
    drawn.set(node, { message, author, writes });
    if (message) fillMessage(node, message);
  }

  /** @param {HTMLElement} node @param {any} event */
  function updateEvent(node, event) {
    const actor = event.payload.attribution?.actor_id ?? event.attribution?.actor_id ?? null;
    const state = `${store.get("member", actor)?.of} ${store.count("thread")}`;
    if (drawn.get(node) === state) return;
    drawn.set(node, state);
    setAttr(node, "data-event", event.lsn);
    const at = event.payload.$chain.at / 1_000;
    setChildren(node, [
      // What happens by itself is a whole sentence.
      ...(actor ? [world.names.member(actor), " "] : []),
      ...nodesOf(eventParts(event), world.names),
      " ",
      stamp(at),
    ]);
  }

  /** @param {number} at */
  const stamp = (at) =>
    h("time.quiet.small", { datetime: new Date(at).toISOString(), title: dateTime(at) }, when(at));

  /** @param {number} at */
  const when = (at) => (world.now() - at < 12 * 3_600_000 ? time(at) : relative(at, world.now()));

  /** @param {HTMLElement} node @param {any} message */
  function fillMessage(node, message) {
    const name = world.names.memberText(message.author_id);
    const told = h("div");
    const beside = toldBeside(world, told);
    const at = ms(message.posted_at) ?? 0;
    const head = h(
      "div.row.message-head",
      h("strong", world.names.member(message.author_id)),
      h("a.quiet.small", { href: `#m-${message.id}` }, stamp(at)),
      message.edits > 0 ? h("span.quiet.small", say.edited(message.edits)) : null,
      message.pinned ? h("span.chip", { "data-tone": "accent" }, say.pinned) : null,
      message.withdrawn
        ? null
        : button("⋯", () => menu(message.id, name), { class: "plain end", "aria-label": say.menuOf(name) }),
    );
    setChildren(node, [head, ...bodyOf(message), reactionsOf(message), told]);
    beside.show(`message/${message.id}`, message);
  }

  /** @param {any} message @returns {(Node | null)[]} */
  function bodyOf(message) {
    if (message.withdrawn) return [h("p.quiet", say.withdrawn)];
    if (message.unreadable) return [h("p.quiet", say.unreadable)];
    const words = message.body
      ? marked(message.body, { names: world.names.marks, mentions: world.names.mentions })
      : null;
    return [words, ...(message.content ?? []).map((/** @type {any} */ block) => blockNode(world, block))];
  }

  /** @param {any} message */
  function reactionsOf({ reactions = [] }) {
    if (reactions.length === 0) return null;
    const chips = reactions.map((/** @type {any} */ one) =>
      h("span.chip", h("bdi", one.emoji), ` ${one.count}`),
    );
    return h("div.row.tight", { role: "group", "aria-label": say.reactions }, ...chips);
  }

  /** @param {string} id @param {string} name */
  const menu = (id, name) => openMenu(world, "message", "message", id, say.menuOf(name));

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
      if (changes) timeline.take(changes.events);
      if (changes?.lists.has(ALL)) timeline.again();
      draw();
    },
    reveal,
    close() {
      release();
      timeline.close();
    },
  };
}
