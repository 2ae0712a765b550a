// Members, tasks and channels as the page names them: a link where there is a screen and one may see it, else
// words.
//
// Promises: what is named and not known is read; words of others are isolated. Leaves out: sentences.

import { dateTime, list, shortId, time } from "./pure/format.js";
import { hrefOf } from "./router.js";
import { screens } from "./screens.js";
import { names as say } from "./strings/en.js";
import { h, link, words } from "./view/node.js";
import { plainWords } from "./view/plain.js";

/** @typedef {ReturnType<typeof createNames>} ThingNames */

/** So much of what is named and not known is read. */
const NAMED_MOST = 500;

/**
 * The address of a screen, or null as long as there is no such screen.
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

  /** Has a thing read that is named and not known. @param {string} key */
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

  /** One that is not known may be one that may not be seen: then it is words. @param {string} id */
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

  /** Whoever else is in a direct message, by handle. @param {any} dm @param {string} me */
  const participants = ({ participants: all }, me) =>
    list(all.flatMap((/** @type {any} */ one) => (one.member_id === me ? [] : [`@${one.handle}`]))) ||
    say.alone;

  /** Who is in a channel, as far as it is known. @param {string} id */
  function insideOf(id) {
    want(`channel_members/${id}`);
    const members = store.get("channel_members", id)?.items ?? [];
    return new Set(members.map((/** @type {any} */ { member_id }) => member_id));
  }

  /** @param {number} ms */
  const at = (ms) => h("time", { datetime: new Date(ms).toISOString(), title: dateTime(ms) }, time(ms));

  /** Who is mentioned in a text, as it is written; a group has no screen. @param {string | null} id @param {string} text */
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
