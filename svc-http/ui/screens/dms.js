// Direct messages: the user's conversations, and the open one.
//
// Guarantees: the open conversation is part of the address; reading a message marks it as read. Not here: the
// content of a conversation (panels/conversation.js).

import { relative } from "../pure/format.js";
import { ms } from "../pure/clock.js";
import { oneLine } from "../pure/line.js";
import { actionOf } from "../actions.js";
import { actionBar, actionButton } from "../act.js";
import { hrefTo } from "../names.js";
import { openConversation } from "../panels/conversation.js";
import { createLastSaid } from "../state/last-said.js";
import { board as boardSay, dms as say } from "../strings/en.js";
import { progressOf, showProgress } from "../reading.js";
import { toldBeside } from "../told.js";
import { createHeld } from "../view/held.js";
import { h, link, setAttr, setChildren, setText, show, words } from "../view/node.js";
import { listKeys } from "./list-keys.js";

/** @typedef {import("../world.js").World} World */

const LIST = ["list/dms"];
const SHOWN = 100;
const LATEST = 120;

/**
 * @param {HTMLElement} root
 * @param {World} world
 * @param {import("../router.js").Place} place
 * @returns {import("../screens.js").Open}
 */
export function open(root, world, place) {
  const { store } = world;
  const wish = world.reads.wish();
  const said = createLastSaid(world);
  let chosen = place.query.get("c");
  /** @type {ReturnType<typeof openConversation> | null} */
  let conversation = null;
  const list = createHeld({
    label: say.title,
    waits: boardSay.waits,
    earlier: say.more,
    most: SHOWN,
    key: (/** @type {any} */ dm) => dm.id,
    make: () =>
      h("li.dm", h("a.title"), h("span.chip", { "data-tone": "accent" }), h("p.quiet.small.one-line")),
    update: showRow,
  });
  const create = actionButton(
    world,
    /** @type {import("../actions.js").Action} */ (actionOf("open_dm")),
    () => ({
      id: world.me.workspace_id,
    }),
  );
  const status = h("p.quiet", { role: "status" });
  const title = h("h2.grow");
  const buttons = h("div.row");
  const told = h("div");
  const bar = actionBar(world, "dm", buttons);
  const beside = toldBeside(world, told);
  const talk = h("div.talk");
  const pane = h(
    "section.stack.pane",
    h("p.narrow-only", link(hrefTo("dms") ?? "", {}, say.all)),
    h("div.row", title, buttons),
    told,
    talk,
  );
  root.classList.add("panes");
  root.append(
    h(
      "section.stack.list-pane",
      h("div.row", h("h1", say.title), h("span.end", create.node)),
      list.root,
      status,
    ),
    pane,
  );
  wish.set([...LIST, "list/inbox"]);

  /** @param {HTMLElement} node @param {any} dm */
  function showRow(node, dm) {
    const [anchor, chip, latest] = /** @type {any} */ (node.children);
    const name = world.names.participants(dm, world.me.member_id);
    setAttr(node, "data-channel", dm.id);
    setAttr(anchor, "href", hrefTo("dms", {}, `?c=${dm.id}`));
    setAttr(anchor, "aria-current", dm.id === chosen ? "true" : null);
    if (anchor.textContent !== name) setChildren(anchor, [words(name)]);
    const unread = unreadOf(dm);
    show(chip, unread > 0);
    setText(chip, say.unread(unread));
    setText(latest, latestOf(dm));
  }

  /**
   * Returns the number of unread messages, without those marked as read since the list was read.
   *
   * @param {any} dm
   */
  function unreadOf({ id, unread }) {
    const known = store.all("inbox").filter((one) => one.channel_id === id && one.message_id);
    return known.length
      ? known.filter(({ read }) => !read).length
      : store.get("list", "inbox")
        ? 0
        : (unread ?? 0);
  }

  /** @param {any} dm */
  function latestOf({ thread_id, last_lsn }) {
    const message = said.of(thread_id);
    if (last_lsn === null && !message) return say.silent;
    if (!message || message.withdrawn || message.unreadable) return "";
    const who = world.names.memberText(message.author_id);
    return `${who}: ${oneLine(message.body, LATEST)} · ${relative(ms(message.posted_at) ?? 0, world.now())}`;
  }

  function all() {
    const at = (/** @type {any} */ dm) =>
      Math.max(said.of(dm.thread_id)?.lsn ?? 0, dm.last_lsn ?? 0, dm.lsn ?? 0);
    return store.all("dm").sort((one, other) => at(other) - at(one));
  }

  /** Opens the conversation in the address, once it is loaded. */
  function openChosen() {
    const dm = store.get("dm", chosen);
    setAttr(root, "data-open", chosen);
    if (!dm) {
      const isGone = chosen !== null && store.get("list", "dms") !== undefined;
      setText(title, isGone ? say.gone : chosen ? "" : say.choose);
      return;
    }
    setChildren(title, [words(world.names.participants(dm, world.me.member_id))]);
    bar.show(dm);
    beside.show(`dm/${dm.id}`, dm);
    if (conversation) return;
    conversation = openConversation(world, dm.thread_id, place.fragment, { isTalk: true });
    talk.replaceChildren(conversation.root);
    setAttr(pane, "data-thread", dm.thread_id);
    world.title(world.names.participants(dm, world.me.member_id));
  }

  /** @param {import("../state/store.js").Changes} [changes] */
  function draw(changes) {
    const rows = all();
    said.want(rows);
    list.setItems(rows);
    const text = rows.length ? "" : say.none;
    showProgress(world, status, progressOf(world, LIST), { reading: say.reading, text });
    create.update();
    openChosen();
    conversation?.show(changes);
  }

  function leave() {
    conversation?.close();
    conversation = null;
    talk.replaceChildren();
    bar.show(undefined);
  }

  // A conversation is not a task: it has no preview and no task actions.
  const keys = listKeys(world, list, () => null);
  const unbind = world.keys.bind({
    ...keys,
    r: (event) =>
      conversation && [null, chosen].includes(list.here()) ? conversation.focus() : keys.r?.(event),
    Escape(event) {
      if (!conversation || document.activeElement !== conversation.input) return keys.Escape?.(event);
      conversation.input.blur();
      list.focus(chosen);
    },
  });

  return {
    show(changes) {
      if (changes?.events.some((event) => isOfDms(event, world))) world.reads.again("list/dms");
      draw(changes);
    },
    moved(next) {
      place = next;
      const to = next.query.get("c");
      if (to !== chosen) leave();
      else if (next.fragment === "say") conversation?.focus();
      else conversation?.reveal(next.fragment);
      chosen = to;
      draw();
    },
    close() {
      unbind();
      leave();
      wish.close();
      said.close();
      list.close();
    },
  };
}

/**
 * Returns whether an event may begin or end a conversation of the user.
 *
 * @param {any} event
 * @param {World} world
 */
function isOfDms({ kind, payload }, { store, me }) {
  if (kind === "ChannelCreated") return payload.kind === "dm";
  return (
    /^ChannelMember/.test(kind) &&
    (payload.member_id === me.member_id ||
      store.get("dm", payload.channel_id) !== undefined ||
      store.get("channel", payload.channel_id)?.kind === "dm")
  );
}
