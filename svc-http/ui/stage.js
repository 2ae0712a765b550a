// Shows one screen at a time: opens the screen of the address, redraws it, and closes it for the next one.
//
// Guarantees: a screen that fails to load says so and can be retried; its heading is focused after a link was
// followed; the scroll position is restored after going back. Not here: the content of screens.

import { beginById } from "./act.js";
import { actions } from "./actions.js";
import { openHelp, openPalette } from "./later.js";
import { Problem } from "./net/ask.js";
import { isOutdated, outdated } from "./outdated.js";
import { hrefOf, createRouter, read } from "./router.js";
import { screens } from "./screens.js";
import { acting, places, shell } from "./strings/en.js";
import { focusHeading } from "./view/focus.js";
import { button, dropFields, h } from "./view/node.js";

/** Maximum draws during which the row that had the focus is searched after going back. */
const DRAWS = 20;

/**
 * @param {import("./frame.js").Frame} frame
 * @param {import("./world.js").World} world
 */
export function openStage(frame, world) {
  const router = createRouter(show);
  /** @type {import("./screens.js").Open | null} */
  let open = null;
  /** @type {import("./screens.js").Screen | null} */
  let current = null;
  let turn = 0;
  let workspace = shell.product;

  /** @param {URL} address */
  function find(address) {
    for (const screen of screens) {
      const place = read(screen.path, address);
      if (place) return { screen, place };
    }
    return null;
  }

  /** @param {URL} address @param {"first" | "link" | "back"} how */
  async function show(address, how) {
    const found = find(address);
    if (!found) return missing(how);
    const { screen, place } = found;
    if (current === screen && open?.moved && samePlace(place)) return open.moved(place);
    const mine = (turn += 1);
    leave();
    current = screen;
    mark(screen.id);
    const lacks = world.lacks(screen.needs);
    if (lacks) return lacking(screen, lacks, how);
    try {
      const { open: openScreen } = await screen.load();
      if (mine !== turn) return;
      shownPlace = place;
      const root = h("div.screen", { "data-screen": screen.id });
      frame.main.replaceChildren(root);
      open = openScreen(root, world, place);
      open.show();
      arrive(how);
    } catch (error) {
      if (mine === turn) failed(error, () => void show(address, how));
    }
  }

  /** @type {import("./router.js").Place | null} */
  let shownPlace = null;
  /** @param {import("./router.js").Place} place */
  function samePlace(place) {
    return JSON.stringify(shownPlace?.params) === JSON.stringify(place.params);
  }

  function leave() {
    left.key = "";
    open?.close();
    open = null;
    current = null;
    dropFields(frame.main);
    frame.main.replaceChildren(h("p.quiet.later", shell.loading));
  }

  /** @param {string} id */
  function mark(id) {
    frame.mark(id);
    frame.main.dataset.screen = id;
    document.title = shell.title(places[/** @type {"board"} */ (id)] ?? id, workspace);
  }

  /** @param {"first" | "link" | "back"} how */
  function arrive(how) {
    window.scrollTo(0, how === "back" ? router.scrolled() : 0);
    if (how === "back") comeBack(router.focused());
    if (how === "link" && !frame.main.contains(document.activeElement)) focusHeading(document);
  }

  /** Row to focus again, until it appears or the user moves the focus. */
  let left = { key: "", draws: 0 };
  /**
   * Focuses the row that the user left, or the next one if it is gone; the list may have to be read first.
   *
   * @param {string[]} keys
   */
  function comeBack([key = "", ...next]) {
    left = { key, draws: DRAWS };
    const isBack = lookForLeft() || next.some((one) => open?.focusOn?.(one));
    if (!isBack && !frame.main.contains(document.activeElement)) focusHeading(document);
  }

  function lookForLeft() {
    const isThere = left.key !== "" && open?.focusOn?.(left.key) === true;
    if (isThere) left.key = "";
    return isThere;
  }

  /** Searches for the row in the first draws after going back. */
  function goOnLooking() {
    const isWaiting = document.activeElement === document.body || document.activeElement?.matches("main h1");
    if (left.key === "") return;
    left.draws -= 1;
    if (!isWaiting || left.draws === 0) left.key = "";
    else lookForLeft();
  }

  /** @param {"first" | "link" | "back"} how */
  function missing(how) {
    const first = screens.find(({ isPlace }) => isPlace);
    leave();
    mark("");
    frame.main.replaceChildren(
      h("h1", shell.noSuchPlace),
      first ? h("p", h("a", { href: hrefOf(first.path) }, shell.toBoard)) : "",
    );
    arrive(how);
  }

  /**
   * Shows a screen that the session may not use, with the missing capability.
   *
   * @param {import("./screens.js").Screen} screen
   * @param {string} capability
   * @param {"first" | "link" | "back"} how
   */
  function lacking({ id }, capability, how) {
    frame.main.replaceChildren(
      h(
        "div.screen.stack",
        { "data-screen": id },
        h("h1", places[/** @type {"board"} */ (id)] ?? id),
        h("p.problem", { role: "alert", "data-problem": "missing-capability" }, acting.lacks(capability)),
      ),
    );
    arrive(how);
  }

  /** @param {unknown} error @param {() => void} again */
  function failed(error, again) {
    if (!(error instanceof Problem)) console.error(error);
    open = null;
    frame.main.replaceChildren(
      h("p.problem", { role: "alert" }, shell.failed),
      h("div.row", button(shell.tryAgain, again)),
    );
    void lookForNewer();
  }

  /** Looks for a newer version of the board. A page that was open during an upgrade keeps its files. */
  async function lookForNewer() {
    if (await isOutdated()) frame.showOutdated(outdated());
  }

  let wasLive = true;
  function followLive() {
    frame.showLive(world);
    const { state } = world.live();
    // After an outage the server may be running a newer version.
    if (state === "live" && !wasLive) void lookForNewer();
    if (state === "live" || state === "offline") wasLive = state === "live";
  }

  const unwatch = world.store.watch((changes) => {
    open?.show(changes);
    goOnLooking();
    nameWorkspace();
    frame.showNeeds(world.needs().list().length);
    frame.showLive(world);
    frame.showAlarm(world);
  });
  const unwatchLive = world.watchLive(followLive);
  /** Returns the workspace as an entity, with the channel of the open task as the default for new tasks. */
  function ofWorkspace() {
    const thread = current?.id === "task" ? world.store.get("thread", shownPlace?.params.id) : undefined;
    return { id: world.me.workspace_id, channelId: thread?.channel_id };
  }
  function placeKeys() {
    /** @type {import("./view/keys.js").Keys} */
    const all = {
      p: pause,
      ".": () => router.go(hrefOf("", {}, "#next")),
      "?": () => void openHelp(),
      "Mod+k": () => void openPalette(world),
    };
    for (const action of actions) {
      if (action.key && action.on === "workspace")
        all[action.key] = () => beginById(world, action.id, ofWorkspace());
    }
    for (const { key, path } of screens) if (key) all[`g ${key}`] = () => router.go(hrefOf(path));
    return all;
  }

  /** @type {ReturnType<typeof setInterval> | undefined} */
  let counting;
  /** Toggles the pause, in which only the number of waiting updates is drawn. */
  function pause() {
    world.store.pause(!world.store.isPaused());
    clearInterval(counting);
    if (world.store.isPaused()) counting = setInterval(() => frame.showLive(world), 1_000);
    frame.showLive(world);
  }

  const unbind = world.keys.bind(placeKeys());
  const wish = world.reads.wish();
  wish.set([`workspace/${world.me.workspace_id}`]);

  function nameWorkspace() {
    const name = world.store.get("workspace", world.me.workspace_id)?.name ?? shell.product;
    if (name === workspace) return;
    workspace = name;
    frame.setWorkspace(name);
    if (current) mark(current.id);
  }

  frame.showLive(world);
  void show(new URL(location.href), "first");
  return {
    go: router.go,
    note: router.note,
    back() {
      const first = screens.find(({ isPlace }) => isPlace);
      router.back(hrefOf(first?.path ?? ""));
    },
    openPalette: () => void openPalette(world),
    openHelp: () => void openHelp(),
    /** @param {string} text */
    title: (text) => (document.title = shell.title(text, workspace)),
    close() {
      turn += 1;
      clearInterval(counting);
      open?.close();
      wish.close();
      router.close();
      unwatch();
      unwatchLive();
      unbind();
    },
  };
}
