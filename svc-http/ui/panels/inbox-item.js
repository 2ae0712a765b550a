// Row of one inbox item: actor, reason, task or channel, time, and an approval request to decide.
//
// Guarantees: the row changes in place; a read item is labelled as read. Not here: the list of items.

import { dateTime, relative } from "../pure/format.js";
import { oneLine } from "../pure/line.js";
import { ms } from "../pure/clock.js";
import { actionOf } from "../actions.js";
import { actionButton } from "../act.js";
import { hrefTo } from "../names.js";
import { inbox as say, inboxReasons } from "../strings/en.js";
import { toldBeside } from "../told.js";
import { h, link, setAttr, setChildren, setText, show, words } from "../view/node.js";
import { openGate } from "./gate.js";

/** @typedef {import("../world.js").World} World */

/** @type {Record<string, string>} */
const TONES = {
  approval_requested: "review",
  review_requested: "review",
  refuted: "bad",
  claim_expired: "bad",
  claim_unacknowledged: "warn",
  claim_taken: "warn",
};

const PREVIEW = 300;

/** Returns the address of the page that an item refers to. @param {World} world @param {any} item */
export function placeOfItem({ store }, { channel_id, thread_id, message_id }) {
  const fragment = message_id ? `#m-${message_id}` : "";
  if (store.get("dm", channel_id)) return hrefTo("dms", {}, `?c=${channel_id}${fragment}`);
  return thread_id ? hrefTo("task", { id: thread_id }, fragment) : hrefTo("channel", { id: channel_id });
}

/** @type {WeakMap<HTMLElement, (item: any, isChosen: boolean) => void>} */
const updates = new WeakMap();

/**
 * @param {World} world
 * @param {any} first
 * @param {(id: string) => void} choose
 */
export function makeItem(world, first, choose) {
  const { id } = first;
  const entity = () => world.store.get("inbox", id) ?? world.store.get("inbox_all", id);
  const box = h("input", { type: "checkbox", onchange: () => choose(id) });
  const title = h("span.need-title");
  const chip = h("span.chip", { "data-tone": TONES[first.reason] ?? "accent" }, inboxReasons[first.reason]);
  const state = h("span.chip", say.marked);
  const age = h("time.quiet.small");
  const text = h("p.grow");
  const told = h("div");
  const beside = toldBeside(world, told);
  const action = /** @type {import("../actions.js").Action} */ (actionOf("mark_inbox_read"));
  const mark = actionButton(world, action, entity);
  const gatePlace = h("div");
  /** @type {import("./gate.js").OpenGate | null} */
  let gate = null;
  const node = h(
    "li.need.stack.tight",
    { "data-inbox": id, "data-thread": first.thread_id },
    h("div.row", box, title, chip, state, h("span.end", age)),
    h("div.row", text, h("span.end", mark.node)),
    gatePlace,
    told,
  );

  /** Shows an approval request inside the item that announces it. @param {any} item */
  function showGate(item) {
    if (item.reason !== "approval_requested") return;
    if (!gate) {
      const asked = world.store.all("gate").find(({ message_id }) => message_id === item.message_id);
      if (!asked) return;
      gate = openGate(world, asked.id);
      gatePlace.append(gate.node);
    }
    gate.show();
  }

  let drawn = "";
  /** @param {any} item */
  function showWords(item) {
    const dm = world.store.get("dm", item.channel_id);
    const name = dm
      ? world.names.participants(dm, world.me.member_id)
      : item.thread_id
        ? world.names.threadText(item.thread_id)
        : (world.names.channel(item.channel_id).textContent ?? "");
    const who = item.actor_id ? world.names.memberText(item.actor_id) : "";
    const now = [name, who, item.preview, placeOfItem(world, item), gate !== null].join("\n");
    if (now === drawn) return;
    drawn = now;
    const href = placeOfItem(world, item);
    setChildren(title, [href ? link(href, { class: "title" }, words(name)) : words(name)]);
    setAttr(box, "aria-label", say.choose(name));
    // The approval request itself shows the question.
    const said = item.preview && !gate ? oneLine(item.preview, PREVIEW) : "";
    const preview = said ? [": ", words(said)] : [];
    const actor = item.actor_id && !gate ? [world.names.member(item.actor_id), ...preview] : preview.slice(1);
    setChildren(text, actor);
  }

  updates.set(node, (item, isChosen) => {
    // An item that has left the unread list, but whose row is kept, has been read.
    const now = entity() ?? { ...item, read: true };
    showGate(now);
    showWords(now);
    setAttr(node, "data-read", now.read);
    setAttr(node, "data-chosen", isChosen);
    box.checked = isChosen;
    show(state, now.read);
    show(mark.node, !now.read);
    mark.update();
    const at = ms(now.at) ?? 0;
    setText(age, relative(at, world.now()));
    setAttr(age, "datetime", now.at);
    setAttr(age, "title", dateTime(at));
    beside.show(`inbox/${id}`, now);
  });
  return node;
}

/** @param {HTMLElement} node @param {any} item @param {boolean} isChosen */
export const updateItem = (node, item, isChosen) => updates.get(node)?.(item, isChosen);
