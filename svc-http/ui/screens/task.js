// Task: its obstacles, its timeline, and all actions on it.
//
// Guarantees: a panel is loaded only while it is shown, and events update it; a panel that cannot be read
// gives the reason and does not affect other panels. Not here: the content of the panels (panels/).

import { panels } from "../panels.js";
import { panelNames, parts as words, problemParts, states, task as say } from "../strings/en.js";
import { beginById } from "../act.js";
import { actions } from "../actions.js";
import { openMenu } from "../later.js";
import { hrefTo } from "../names.js";
import { openComposer } from "../panels/composer.js";
import { openTimelineView } from "../panels/timeline.js";
import { shownText } from "../pure/shown.js";
import { leaveField } from "../view/focus.js";
import { plainWords } from "../view/plain.js";
import { button, h, link, setAttr, setChildren, setText, show } from "../view/node.js";
import { nodesOf } from "../view/parts.js";
import { pressKeys } from "./press.js";

/** @typedef {import("../world.js").World} World */

/** Lists that every task needs: the user's follows, and the reasons why the task is not being worked on. */
const ALWAYS = ["list/follows", "list/deferred", "list/dead_letters"];

/**
 * @param {HTMLElement} root
 * @param {World} world
 * @param {import("../router.js").Place} place
 * @returns {import("../screens.js").Open}
 */
export function open(root, world, place) {
  const id = place.params.id ?? "";
  const key = `thread/${id}`;
  const wish = world.reads.wish();
  const title = h("h1");
  const trail = h("p.quiet.small.trail");
  const state = h("span.chip");
  const more = button(say.actions, () => openMenu(world, "thread", "thread", id, world.names.threadText(id)));
  const status = h("p.quiet.later", say.reading);
  const front = h("div.stack");
  const side = h("div.stack.side");
  const composer = openComposer(world, id);
  const timeline = openTimelineView(world, id, () => place.fragment, { answer: composer.answer });
  const body = h(
    "div.task-body",
    h("div.stack.task-main", front, timeline.root, composer.root),
    h("aside", { "aria-label": say.parts }, side),
  );
  body.hidden = true;
  root.classList.add("task");
  setAttr(root, "data-thread", id);
  root.append(h("header.stack.tight", trail, h("div.row.task-head", title, state, more)), status, body);

  const isWide = matchMedia("(min-width: 1000px)").matches;
  const opened = panels.map((panel) => panelOf(panel));
  for (const { panel, node } of opened) (panel.side ? side : front).append(node);
  wish.set([key, "list/follows"]);

  /** @param {import("../panels.js").Panel} panel */
  function panelOf(panel) {
    const content = h("div.stack.panel-body");
    const problem = h("p.quiet.small", { hidden: true });
    const node = panel.side
      ? h(
          "details.panel",
          { open: isWide, "data-panel": panel.id },
          h("summary", h("h2", panelNames[panel.id])),
          content,
          problem,
        )
      : h("section.panel", { "data-panel": panel.id, "aria-label": panelNames[panel.id] }, content, problem);
    node.hidden = true;
    /** @type {import("../panels.js").OpenPanel | null} */
    let inner = null;
    let isAsked = false;
    return {
      panel,
      node,
      close: () => inner?.close?.(),
      /** @param {any} thread @param {import("../state/store.js").Changes} [changes] */
      show(thread, changes) {
        const isThere = panel.when(thread, world);
        show(node, isThere);
        const lacks = world.lacks(panel.needs);
        show(problem, lacks !== null || refusedOf(panel, thread) !== null);
        if (lacks) return setText(problem, words.lacksPart(lacks));
        const refused = refusedOf(panel, thread);
        if (refused) setChildren(problem, nodesOf(problemParts(refused), world.names));
        if (!isThere) return;
        if (inner) return inner.show(thread, changes);
        if (isAsked) return;
        isAsked = true;
        void load();
      },
    };

    async function load() {
      try {
        const { open: openPanel } = await panel.load();
        inner = openPanel(content, world);
        const thread = world.store.get("thread", id);
        if (thread) inner.show(thread);
        aim();
      } catch (error) {
        console.error(error);
        show(problem, true);
        setText(problem, words.partFailed);
      }
    }
  }

  /** @param {import("../panels.js").Panel} panel @param {any} thread */
  function refusedOf(panel, thread) {
    for (const wanted of panel.wants?.(thread) ?? []) {
      const standing = world.reads.standing(wanted);
      if (standing?.state === "refused" && standing.problem?.status !== 403) return standing.problem ?? null;
    }
    return null;
  }

  /** @param {any} thread */
  function showHead(thread) {
    setChildren(title, [plainWords(thread.title)]);
    setText(state, thread.cancelled ? states.cancelled : states[thread.state]);
    const board = hrefTo("board");
    setChildren(trail, [
      board ? link(board, {}, say.board) : "",
      " / ",
      world.names.channel(thread.channel_id),
    ]);
    world.title(shownText(thread.title));
  }

  function showMissing() {
    const standing = world.reads.standing(key);
    const isMissing = standing?.state === "missing" || standing?.state === "refused";
    if (!isMissing) return;
    // The task may have been visible before.
    if (standing.state === "missing") for (const node of [title, trail]) setChildren(node, []);
    setText(status, standing.state === "missing" ? say.missing : say.refused);
    status.classList.remove("later");
    status.setAttribute("role", "alert");
  }

  let isAimed = place.fragment === "gates";
  /** Focuses the pending approval, once it is drawn, if the user came to decide it. */
  function aim() {
    const asked = isAimed ? front.querySelector("[data-gate][data-state=pending] :is(button, input)") : null;
    if (!(asked instanceof HTMLElement)) return;
    isAimed = false;
    asked.focus();
  }

  let wished = "";
  /** Reads the data of the visible panels. @param {any} thread */
  function wishFor(thread) {
    const shown = panels.filter((panel) => world.may(panel.needs) && panel.when(thread, world));
    const keys = [...ALWAYS, key, ...shown.flatMap((panel) => panel.wants?.(thread) ?? [])];
    const now = keys.join();
    if (now !== wished) wish.set(keys);
    wished = now;
  }

  /** @param {import("../state/store.js").Changes} [changes] */
  function draw(changes) {
    const thread = world.store.get("thread", id);
    show(status, !thread);
    show(body, Boolean(thread));
    show(more, Boolean(thread));
    show(state, Boolean(thread));
    if (!thread) return showMissing();
    wishFor(thread);
    if (!changes || concerns(changes)) showHead(thread);
    for (const panel of opened) panel.show(thread, changes);
    timeline.show(changes);
    composer.show(thread);
    aim();
  }

  /** @param {import("../state/store.js").Changes} changes */
  const concerns = ({ dirty }) => dirty.has(key) || [...dirty].some((one) => /^(member|channel)\//.test(one));

  const unbind = world.keys.bind({
    ...pressKeys(world, () => root),
    ...Object.fromEntries(
      actions
        .filter((action) => action.on === "thread" && action.key)
        .map((action) => [action.key, () => beginById(world, action.id, world.store.get("thread", id))]),
    ),
    r: () => composer.focus(),
    Escape: () => leaveField() || world.back(),
  });
  const clock = setInterval(() => {
    const thread = world.store.get("thread", id);
    if (thread) opened.find(({ panel }) => panel.id === "claim")?.show(thread);
  }, 1_000);
  if (place.fragment === "say") requestAnimationFrame(() => composer.focus());

  return {
    show: draw,
    moved(next) {
      place = next;
      if (next.fragment === "say") composer.focus();
      else timeline.reveal(next.fragment);
    },
    close() {
      clearInterval(clock);
      unbind();
      wish.close();
      timeline.close();
      composer.close();
      for (const panel of opened) panel.close();
    },
  };
}
