// Names of members, tasks and channels: links if the screen exists and the entity is visible, otherwise text.
//
// Guarantees: an unknown entity that is named is read; names given by members are isolated from the
// surrounding text direction. Not here: sentences.

import { dateTime, list, shortId, time } from "./pure/format.js";
import { hrefOf } from "./router.js";
import { screens } from "./screens.js";
import { names as say } from "./strings/en.js";
import { h, link, words } from "./view/node.js";
import { plainWords } from "./view/plain.js";

/** @typedef {ReturnType<typeof createNames>} ThingNames */

/** Maximum named entities that are read because they are unknown. */
const NAMED_MOST = 500;

/**
 * Returns the URL of a screen, or null if there is no such screen.
 *
 * @param {string} id
 * @param {Record<string, string>} [params]
 * @param {string} [rest]
 */
export function hrefTo(id, params = {}, rest = "") {
  const screen = screens.find((one) => one.id === id);
  return screen ? hrefOf(screen.path, params, rest) : null;
}

/** @param {{store: import("./state/store.js").Store, reads: import("./state/reads.js").Reads}} world */
export function createNames({ store, reads }) {
  const wish = reads.wish();
  /** @type {Set<string>} */
  const named = new Set();

  /** Requests a read of an entity that is named but unknown. @param {string} key */
  function want(key) {
    if (named.has(key) || named.size >= NAMED_MOST) return;
    wish.set(named.add(key));
  }

  /** @param {string | null | undefined} id */
  function memberText(id) {
    if (!id) return say.service;
    const member = store.get("member", id);
    if (!member) want(`member/${id}`);
    return member ? member.display_name || member.handle : say.member(shortId(id));
  }

  /** @param {string | null | undefined} id */
  function member(id) {
    const text = words(memberText(id));
    const href = id ? hrefTo("member", { id }) : null;
    return href ? link(href, { "data-member": id }, text) : h("span", { "data-member": id }, text);
  }

  /** @param {string} id */
  function threadText(id) {
    return store.get("thread", id)?.title ?? say.thread(shortId(id));
  }

  /**
   * Returns the name of a task as a link, or as text if the task is unknown or not visible.
   *
   * @param {string} id
   */
  function thread(id) {
    const known = store.get("thread", id);
    if (!known) want(`thread/${id}`);
    const href = known ? hrefTo("task", { id }) : null;
    const text = known ? plainWords(known.title) : say.thread(shortId(id));
    return href ? link(href, {}, text) : h("span", text);
  }

  /** @param {string} id */
  function channel(id) {
    const known = store.get("channel", id);
    if (!known) want(`channel/${id}`);
    const isTalk = known?.kind === "dm";
    const text = known ? words(isTalk ? known.name : say.channel(known.name)) : say.channelUnknown(shortId(id));
    const href = !known ? null : isTalk ? hrefTo("dms", {}, `?c=${id}`) : hrefTo("channel", { id });
    return href ? link(href, {}, text) : h("span", text);
  }

  /** Returns the handles of the other participants of a direct message. @param {any} dm @param {string} me */
  const participants = ({ participants: all }, me) =>
    list(all.flatMap((/** @type {any} */ one) => (one.member_id === me ? [] : [`@${one.handle}`]))) ||
    say.alone;

  /** Returns the ids of the known members of a channel. @param {string} id */
  function insideOf(id) {
    want(`channel_members/${id}`);
    const members = store.get("channel_members", id)?.items ?? [];
    return new Set(members.map((/** @type {any} */ { member_id }) => member_id));
  }

  /** @param {number} ms */
  const at = (ms) => h("time", { datetime: new Date(ms).toISOString(), title: dateTime(ms) }, time(ms));

  /**
   * Returns a mention as it is written, linked to its member; a group has no screen.
   *
   * @param {string | null} id
   * @param {string} text
   */
  function mention(id, text) {
    const href = id ? hrefTo("member", { id }) : null;
    return href
      ? link(href, { class: "mention", "data-mention": id }, words(text))
      : h("span.mention", words(text));
  }

  return {
    member,
    memberText,
    participants,
    insideOf,
    thread,
    threadText,
    channel,
    time: at,
    mention,
    /** @param {string} _operation @param {string} text */
    op: (_operation, text) => text,
  };
}
