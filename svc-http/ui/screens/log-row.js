// Row of one event in the log: position, sentence, actor, task or channel, and time.
//
// Guarantees: the row changes in place; its position links to the details of the event. Not here: the list.

import { dateTime, when } from "../pure/format.js";
import { oneLine } from "../pure/line.js";
import { eventSentence, log as say } from "../strings/en.js";
import { hrefTo } from "../names.js";
import { h, setAttr, setChildren, setText, show, words } from "../view/node.js";
import { nodesOf } from "../view/parts.js";

/** @typedef {import("../world.js").World} World */

/**
 * @typedef {{lsn: HTMLElement, what: HTMLElement, where: HTMLElement, kind: HTMLElement, broken: HTMLElement, at: HTMLElement, drawn: string}} Parts
 */
/** @type {WeakMap<HTMLElement, Parts>} */
const parts = new WeakMap();

export function makeRow() {
  const lsn = h("a.title.mono");
  const what = h("span.what.one-line");
  const where = h("span.where.one-line.quiet");
  const kind = h("span.kind.one-line.mono.quiet");
  const broken = h("span.chip", { "data-tone": "bad", hidden: true }, say.isBroken);
  const at = h("time.at.quiet.small");
  const node = h("article.event-row", lsn, broken, what, where, kind, at);
  parts.set(node, { lsn, what, where, kind, broken, at, drawn: "" });
  return node;
}

/**
 * @param {World} world
 * @param {HTMLElement} node
 * @param {import("../pure/types.js").LogEvent} event
 * @param {string} query
 */
export function updateRow(world, node, event, query) {
  const row = parts.get(node);
  if (!row) return;
  const { lsn, kind, payload } = event;
  const alarm = world.proof.alarm();
  const isBroken = alarm?.state === "broken" && alarm.lsn === lsn;
  setAttr(node, "data-broken", isBroken ? lsn : null);
  show(row.broken, isBroken);
  const state = [lsn, query, stateOf(world, event)].join(" ");
  if (row.drawn === state) return;
  row.drawn = state;
  const { at = 0, thread_id, channel_id } = payload.$chain ?? {};
  setAttr(node, "data-event", lsn);
  setAttr(node, "data-kind", kind);
  setText(row.lsn, lsn);
  setAttr(row.lsn, "href", hrefTo("log", {}, `${query}#${lsn}`));
  setAttr(row.lsn, "aria-label", say.event(lsn));
  setChildren(row.what, [...nodesOf(eventSentence(event), world.names), ...said(event)]);
  const place = thread_id
    ? world.names.thread(thread_id)
    : channel_id
      ? world.names.channel(channel_id)
      : null;
  setChildren(row.where, [place]);
  setText(row.kind, kind);
  const ms = at / 1_000;
  if (!Number.isFinite(ms) || Math.abs(ms) > 8.64e15) return setText(row.at, "");
  setText(row.at, when(ms, world.now()));
  setAttr(row.at, "datetime", new Date(ms).toISOString());
  setAttr(row.at, "title", dateTime(ms));
}

/**
 * Returns a key of all the data that a row shows, so that it is redrawn only after a change.
 *
 * @param {World} world
 * @param {any} event
 */
function stateOf({ store }, { payload, message }) {
  const { thread_id, channel_id } = payload.$chain ?? {};
  const actor = store.get("member", payload.attribution?.actor_id);
  const thread = store.get("thread", thread_id)?.title;
  const channel = store.get("channel", channel_id)?.name;
  return [
    actor?.display_name,
    store.count("member"),
    thread,
    channel,
    message?.body,
    message?.withdrawn,
  ].join(" ");
}

const WORDS_MOST = 300;
/** Returns the text of a message for the row. @param {any} event */
function said({ message }) {
  if (!message) return [];
  if (message.withdrawn) return [": ", say.withdrawn];
  return message.body ? [": ", words(oneLine(message.body, WORDS_MOST))] : [];
}
