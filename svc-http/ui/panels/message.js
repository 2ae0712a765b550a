// Message: author, time, content, reactions, relations and actions.
//
// Guarantees: only changed messages are redrawn; a press adds or removes a reaction; a relation links to the
// related message. Not here: the order of messages (timeline.js).

import { dateTime, relative, time } from "../pure/format.js";
import { newRoom } from "../pure/fold.js";
import { oneLine } from "../pure/line.js";
import { ms } from "../pure/clock.js";
import { actionOf } from "../actions.js";
import { actionBar, disable, send, whyNot } from "../act.js";
import { marked } from "../marked.js";
import { hrefTo } from "../names.js";
import { openEdits, openMenu } from "../later.js";
import { message as say, task } from "../strings/en.js";
import { toldBeside } from "../told.js";
import { button, dropFields, h, link, setAttr, setChildren, words } from "../view/node.js";
import { blockNode } from "./blocks.js";

/** @typedef {import("../world.js").World} World */

const DAY_PART = 12 * 3_600_000;
const CITED = 80;
/** Maximum number of messages whose reactions and relations are kept up to date. */
const SHOWN_MOST = 200;

/**
 * @param {World} world
 * @param {{answer?: (id: string) => void}} [how] `answer`: begins a reply to a message, if there is a
 * composer.
 */
export function createMessages(world, { answer } = {}) {
  const { store } = world;
  const wish = world.reads.wish();
  let wished = "";
  /** Messages with relations, in either direction. @type {Set<string>} */
  const related = new Set();
  /** @type {Map<string, any[]>} */
  let relations = new Map();
  /** Data that each message was drawn from. @type {WeakMap<HTMLElement, unknown[]>} */
  const drawn = new WeakMap();
  /**
   * Content nodes of each message, which are kept while the content is unchanged.
   *
   * @type {WeakMap<HTMLElement, {said: string, nodes: HTMLElement[]}>}
   */
  const bodies = new WeakMap();

  /** Loads the related data that the visible messages need. @param {string[]} ids */
  function look(ids) {
    const keys = ids.slice(-SHOWN_MOST).flatMap((id) => {
      const known = store.get("message", id);
      // The first reaction by another member only marks the message as stale.
      const own = known ? [`message/${id}`] : [];
      if (known?.reactions?.length) own.push(`reactions/${id}`);
      if (related.has(id)) own.push(`related/${id}`);
      return own;
    });
    const now = keys.join();
    if (now !== wished) wish.set(keys);
    wished = now;
    relations = new Map();
    for (const one of store.all("relation")) {
      for (const id of [one.from_id, one.to_id]) relations.set(id, [...(relations.get(id) ?? []), one]);
    }
  }

  /** @param {any} event */
  function note({ kind, payload }) {
    if (kind !== "MessageRelated") return;
    related.add(payload.from_id);
    related.add(payload.to_id);
  }

  /** @param {HTMLElement} node @param {string} id */
  function update(node, id) {
    const message = store.get("message", id);
    if (!message) {
      if (drawn.delete(node)) setChildren(node, [h("p.quiet", task.gone)]);
      return;
    }
    const state = [
      message,
      world.isOffline(),
      store.get("member", message.author_id),
      store.get("reactions", id),
      ...(relations.get(id) ?? []),
      ...world.outbox.about(`message/${id}`).map((write) => `${write.id} ${write.state}`),
      ...(relations.get(id) ?? []).flatMap((one) =>
        world.outbox.about(`relation/${one.id}`).map((write) => `${write.id} ${write.state}`),
      ),
    ];
    const before = drawn.get(node);
    if (before && before.length === state.length && before.every((one, at) => one === state[at])) return;
    drawn.set(node, state);
    fill(node, message);
  }

  /** @param {HTMLElement} node @param {any} message */
  function fill(node, message) {
    const had = node.contains(document.activeElement) ? labelOf(document.activeElement) : null;
    const told = h("div");
    setChildren(node, [
      headOf(message),
      ...bodyOf(node, message),
      relationsOf(message),
      reactionsOf(message),
      told,
    ]);
    toldBeside(world, told).show(`message/${message.id}`, message);
    if (had === null || node.contains(document.activeElement)) return;
    const same = [...node.querySelectorAll("button, a[href]")].find((one) => labelOf(one) === had);
    if (same instanceof HTMLElement) same.focus({ preventScroll: true });
  }

  /** @param {Element | null} node */
  const labelOf = (node) =>
    node?.getAttribute("data-of") ?? node?.getAttribute("aria-label") ?? node?.textContent ?? "";

  /** @param {any} message */
  function headOf(message) {
    const name = world.names.memberText(message.author_id);
    const { id } = message;
    const edits = button(task.edited(message.edits), () => void openEdits(world, id), {
      class: "link small",
    });
    const more = button("⋯", () => void openMenu(world, "message", "message", id, task.menuOf(name)), {
      class: "plain",
      "aria-label": task.menuOf(name),
    });
    const reply =
      answer && button(say.answer, () => answer(id), { class: "plain small", "data-of": "answer" });
    return h(
      "div.row.message-head",
      h("strong", world.names.member(message.author_id)),
      h("a.quiet.small", { href: `#m-${id}` }, stampOf(world, ms(message.posted_at) ?? 0)),
      message.edits > 0 ? edits : null,
      message.pinned ? h("span.chip", { "data-tone": "accent" }, task.pinned) : null,
      message.withdrawn ? null : h("span.row.tight.end", reply, more),
    );
  }

  /** @param {HTMLElement} node @param {any} message @returns {(Node | null)[]} */
  function bodyOf(node, message) {
    const { id, body, content, channel_id: channel, withdrawn, unreadable } = message;
    const before = bodies.get(node);
    const said = JSON.stringify([body, content, withdrawn, unreadable]);
    if (before?.said === said) return before.nodes;
    bodies.delete(node);
    before?.nodes.forEach(dropFields);
    if (withdrawn) return [h("p.quiet", task.withdrawn)];
    if (unreadable) return [h("p.quiet", task.unreadable)];
    // All content of a message folds together.
    const of = { of: `message/${id}`, channel, room: newRoom() };
    const words = body ? [marked(world, body, of)] : [];
    const nodes = [...words, ...(content ?? []).map((/** @type {any} */ block) => blockNode(world, block, of))];
    bodies.set(node, { said, nodes });
    return nodes;
  }

  /** @param {any} message */
  function relationsOf({ id }) {
    const all = relations.get(id) ?? [];
    if (all.length === 0) return null;
    return h("ul.stack.tight.relations", ...all.map((one) => relationOf(one, id)));
  }

  /** @param {any} relation @param {string} id */
  function relationOf(relation, id) {
    const isFrom = relation.from_id === id;
    const other = isFrom ? relation.to_id : relation.from_id;
    const thread = isFrom ? relation.to_thread_id : relation.from_thread_id;
    const buttons = h("span.row.tight");
    const told = h("div");
    actionBar(world, "relation", buttons).show(relation);
    toldBeside(world, told).show(`relation/${relation.id}`, relation);
    const names = isFrom ? say.relates : say.relatedBy;
    const isRefuted = relation.kind === "refutes" && relation.open;
    return h(
      "li.small",
      { "data-relation": relation.id },
      h("span.chip", { "data-tone": isRefuted ? "bad" : null }, names[relation.kind] ?? relation.kind),
      " ",
      cited(other, thread),
      relation.kind === "refutes" && !relation.open ? ` · ${say.resolved}` : "",
      " ",
      buttons,
      told,
    );
  }

  /**
   * Returns a link to another message, labelled with the beginning of its text.
   *
   * @param {string} id
   * @param {string | null} thread
   */
  function cited(id, thread) {
    const known = store.get("message", id);
    const text = known?.body ? oneLine(known.body, CITED) : say.another;
    const where = thread ?? known?.thread_id;
    const href = where ? hrefTo("task", { id: where }, `#m-${id}`) : null;
    return href ? link(href, {}, words(text)) : words(text);
  }

  /** @param {any} message */
  function reactionsOf(message) {
    const { id, reactions = [] } = message;
    if (reactions.length === 0) return null;
    const given = store.get("reactions", id)?.items ?? [];
    const chips = reactions.map((/** @type {any} */ { emoji, count }) => {
      const who = given.find((/** @type {any} */ one) => one.emoji === emoji)?.member_ids ?? [];
      const isMine = who.includes(world.me.member_id);
      const press = button("", () => react(message, emoji, isMine), {
        class: "sign",
        "aria-pressed": isMine ? "true" : "false",
        "data-action": isMine ? "remove_reaction" : "add_reaction",
        "data-of": `sign ${emoji}`,
      });
      const why = whyNot(world, isMine ? "remove_reaction" : "add_reaction");
      disable(press, why);
      const names = who.map((/** @type {string} */ one) => world.names.memberText(one)).join(", ");
      if (!why) setAttr(press, "title", names || null);
      press.append(words(emoji), ` ${count}`);
      return press;
    });
    return h("div.row.tight", { role: "group", "aria-label": task.reactions }, ...chips);
  }

  /** @param {any} message @param {string} emoji @param {boolean} isMine */
  function react(message, emoji, isMine) {
    const action = actionOf(isMine ? "remove_reaction" : "add_reaction");
    if (action) void send(world, action, message, { emoji });
  }

  return {
    /** @param {string} id */
    make: (id) => h("li.message", { "data-message": id, id: `m-${id}` }),
    note,
    look,
    update,
    close: () => wish.close(),
  };
}

/**
 * Formats the time of a message: the time of day within 12 hours, otherwise relative.
 *
 * @param {World} world
 * @param {number} at
 */
export function stampOf(world, at) {
  const text = world.now() - at < DAY_PART ? time(at) : relative(at, world.now());
  const node = h("time.quiet.small", { datetime: new Date(at).toISOString() }, text);
  setAttr(node, "title", dateTime(at));
  return node;
}
