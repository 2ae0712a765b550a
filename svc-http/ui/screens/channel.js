// Channel: its tasks, the conversation of the selected task, and the sections of the channel.
//
// Guarantees: the selected task and the filter are part of the address; the list does not move under the
// user. Not here: the content of cards, conversations and sections.

import { actionOf } from "../actions.js";
import { actionBar, actionButton } from "../act.js";
import { cardOf } from "../cards.js";
import { openMenu } from "../later.js";
import { hrefTo } from "../names.js";
import { openConversation } from "../panels/conversation.js";
import { openParts, wishesOf } from "../panels/of-channel.js";
import { showProgress } from "../reading.js";
import { shownText } from "../pure/shown.js";
import { createChannelTasks } from "../state/of-channel.js";
import { board as boardSay, card as cardSay, channel as say } from "../strings/en.js";
import { toldBeside } from "../told.js";
import { makeCard, updateCard } from "../view/card.js";
import { button, h, link, setAttr, setChildren, setText, show, words } from "../view/node.js";
import { createWindow, focusRow } from "../view/window.js";
import { chosenTasks } from "./chosen.js";
import { windowKeys } from "./list-keys.js";

/** @typedef {import("../world.js").World} World */
/** @typedef {"open" | "done" | "all"} Which */

const TICK = 1_000;

/**
 * @param {HTMLElement} root
 * @param {World} world
 * @param {import("../router.js").Place} place
 * @returns {import("../screens.js").Open}
 */
export function open(root, world, place) {
  const id = place.params.id ?? "";
  const { store } = world;
  const tasks = world.tasks();
  const inside = createChannelTasks(world, id, tasks.latestOf);
  const wish = world.reads.wish();
  let chosen = place.query.get("t");
  let which = whichOf(place.query);
  /** @type {ReturnType<typeof openConversation> | null} */
  let conversation = null;

  const title = h("h1");
  const chips = h("span.row.tight");
  const topic = h("p.quiet");
  const buttons = h("span.row");
  const told = h("div");
  const bar = actionBar(world, "channel", buttons);
  const beside = toldBeside(world, told);
  const create = actionButton(
    world,
    /** @type {import("../actions.js").Action} */ (actionOf("create_thread")),
    () => ({
      id: world.me.workspace_id,
      channelId: id,
    }),
  );
  const menu = button(
    say.actions,
    () => void openMenu(world, "channel", "channel", id, title.textContent ?? ""),
  );
  const others = h("select", {
    name: "channel",
    "aria-label": say.others,
    onchange: () => goTo(others.value),
  });
  const shown = h(
    "select",
    { name: "show", "aria-label": say.show, onchange: () => setWhich(/** @type {Which} */ (shown.value)) },
    ...Object.entries(say.which).map(([value, text]) => h("option", { value }, text)),
  );
  const status = h("p.quiet", { role: "status" });
  const list = createWindow({
    label: say.tasks,
    waits: boardSay.waits,
    height: () =>
      parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--card-height")) + 8,
    key: (/** @type {string} */ one) => one,
    make: () => makeCard({ menu: openMenuOf, menuLabel: boardSay.menu }),
    update: drawCard,
  });
  const many = chosenTasks(world, () => draw());
  const talk = h("div.talk");
  const head = h("div.row");
  const pane = h("section.stack.pane", { "aria-label": say.tasks }, head, talk);
  const isWide = matchMedia("(min-width: 1000px)").matches;
  const parts = openParts(world, id, isWide);
  const aside = h("aside.stack", { "aria-label": say.parts }, ...parts.nodes);
  const body = h(
    "div.panes.of-channel",
    h("section.stack.list-pane", h("div.row", h("h2", say.tasks), h("span.end"), shown), status, list.root),
    pane,
    aside,
  );
  root.classList.add("stack");
  setAttr(root, "data-channel", id);
  root.append(
    h(
      "header.stack.tight",
      h("div.row", title, chips, h("span.end"), others, create.node, buttons, menu),
      topic,
      told,
    ),
    many.node,
    body,
  );
  wish.set([`channel/${id}`, "list/follows", ...wishesOf(id)]);
  shown.value = which;

  /** @param {string} one */
  const openMenuOf = (one) => void openMenu(world, "thread", "thread", one, world.names.threadText(one));

  /** @param {HTMLElement} node @param {string} one */
  function drawCard(node, one) {
    const thread = store.get("thread", one);
    if (!thread) return;
    const how = { lane: tasks.laneOf(one), isOpen: one === chosen, isChosen: many.ids.has(one) };
    const card = cardOf(world, thread, how);
    updateCard(node, { ...card, href: hrefTo("channel", { id }, queryOf(one, which)) });
  }

  /** @param {string} other */
  function goTo(other) {
    const href = hrefTo("channel", { id: other });
    if (href) world.go(href);
  }

  /** @param {Which} next */
  function setWhich(next) {
    which = next;
    world.note(queryOf(chosen, which));
    draw();
    list.take();
  }

  function showHead() {
    const channel = store.get("channel", id);
    if (!channel) return;
    const name = channel.kind === "dm" ? say.dm : `#${channel.name}`;
    if (title.textContent !== name) {
      setChildren(title, [words(name)]);
      world.title(name);
    }
    setChildren(chips, [
      channel.private ? h("span.chip", say.private) : null,
      channel.archived ? h("span.chip", { "data-tone": "warn" }, say.archived) : null,
      unreadOf(id) ? h("span.chip", { "data-tone": "accent" }, cardSay.unread(unreadOf(id))) : null,
    ]);
    show(topic, Boolean(channel.topic));
    setText(topic, channel.topic);
    bar.show(channel);
    beside.show(`channel/${id}`, channel);
    show(menu, channel.kind !== "dm");
    show(create.node, channel.kind !== "dm" && !channel.archived);
    create.update();
  }

  /** Returns the number of unread messages in a followed entity. @param {string} one @returns {number} */
  const unreadOf = (one) => store.get("follow", one)?.unread ?? 0;

  /** @param {any} one */
  const nameOf = ({ id: one, name }) =>
    [`#${shownText(name)}`, unreadOf(one) ? cardSay.unread(unreadOf(one)) : ""].filter(Boolean).join(" · ");

  let drawnOthers = "";
  function showOthers() {
    const all = store
      .all("channel")
      .filter((one) => one.kind !== "dm" && (!one.archived || one.id === id))
      .sort((one, other) => one.name.localeCompare(other.name));
    const now = all.map((one) => `${one.id} ${nameOf(one)}`).join();
    show(others, all.length > 1);
    if (now === drawnOthers) return;
    drawnOthers = now;
    others.replaceChildren(
      ...all.map((one) => h("option", { value: one.id, selected: one.id === id }, nameOf(one))),
    );
  }

  function showMissing() {
    const standing = world.reads.standing(`channel/${id}`);
    const isMissing = standing?.state === "missing";
    show(status, true);
    setText(status, isMissing ? say.missing : standing?.state === "refused" ? say.refused : say.reading);
    for (const node of [pane, others, aside, create.node, menu]) show(node, !isMissing);
  }

  function showTasks() {
    const ids = inside.list(which);
    many.draw((one) => ids.includes(one));
    list.setItems(ids);
    setAttr(body, "data-empty", ids.length === 0);
    const { problem, isReading, isWhole } = inside.progress;
    const text = !isWhole ? say.older : ids.length ? "" : say.noTasks;
    const isWaited = isReading && ids.length === 0;
    showProgress(world, status, { problem, isReading: isWaited }, { reading: say.reading, text });
  }

  /** Shows the conversation of the selected task. @param {import("../state/store.js").Changes} [changes] */
  function showTalk(changes) {
    setAttr(body, "data-open", chosen);
    if (chosen && !conversation) {
      conversation = openConversation(world, chosen, place.fragment);
      talk.replaceChildren(conversation.root);
      setAttr(pane, "data-thread", chosen);
    }
    const thread = store.get("thread", chosen);
    const href = chosen ? hrefTo("task", { id: chosen }) : null;
    const state = `${chosen} ${thread?.title}`;
    if (head.dataset.of !== state) {
      head.dataset.of = state;
      setChildren(head, [
        h("p.narrow-only", link(hrefTo("channel", { id }, queryOf(null, which)) ?? "", {}, say.back)),
        chosen ? h("h2.grow", words(world.names.threadText(chosen))) : h("p.quiet", say.choose),
        href ? link(href, { class: "button" }, say.openTask) : null,
      ]);
    }
    conversation?.show(changes);
  }

  /** @param {import("../state/store.js").Changes} [changes] */
  function draw(changes) {
    if (!store.get("channel", id)) return showMissing();
    for (const node of [pane, aside]) show(node, true);
    showHead();
    showOthers();
    showTasks();
    parts.show();
    showTalk(changes);
  }

  function leave() {
    conversation?.close();
    conversation = null;
    talk.replaceChildren();
    setAttr(pane, "data-thread", null);
  }

  const keys = windowKeys(world, list, many);
  const unbind = world.keys.bind({
    ...keys,
    r(event) {
      const at = document.activeElement?.closest("[data-thread]")?.getAttribute("data-thread") ?? chosen;
      return conversation && at === chosen ? conversation.focus() : keys.r?.(event);
    },
    c: () => (world.may("create_thread") ? create.node.click() : false),
    "/": () => shown.focus(),
    Escape(event) {
      if (!conversation || document.activeElement !== conversation.input) return keys.Escape?.(event);
      conversation.input.blur();
      focusRow(list, chosen ?? "");
    },
  });
  const clock = setInterval(() => list.redraw(), TICK);

  return {
    show: draw,
    focusOn: (one) => focusRow(list, one),
    moved(next) {
      place = next;
      const to = next.query.get("t");
      which = whichOf(next.query);
      shown.value = which;
      if (to !== chosen) leave();
      else if (next.fragment === "say") conversation?.focus();
      else conversation?.reveal(next.fragment);
      chosen = to;
      draw();
      list.redraw();
    },
    close() {
      clearInterval(clock);
      unbind();
      leave();
      inside.close();
      list.close();
      wish.close();
    },
  };
}

/** @param {URLSearchParams} query @returns {Which} */
function whichOf(query) {
  const named = query.get("show");
  return named === "done" || named === "all" ? named : "open";
}

/** @param {string | null} thread @param {Which} which */
function queryOf(thread, which) {
  const query = new URLSearchParams();
  if (which !== "open") query.set("show", which);
  if (thread) query.set("t", thread);
  const text = query.toString();
  return text ? `?${text}` : "";
}
