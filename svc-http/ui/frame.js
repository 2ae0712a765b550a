// The frame around the screens: navigation, connection state, account, and the place for the screen.
//
// Guarantees: it is created once per session and updated in place; a problem with the connection is shown
// above the screen in words, with the time at which it began. Not here: the screens.

import { live as liveWords, places, shell } from "./strings/en.js";
import { button, h, link, setAttr, setText, show, words } from "./view/node.js";
import { createHold } from "./view/hold.js";
import { fillAlarm } from "./later.js";
import { createSay } from "./view/say.js";
import { hrefOf } from "./router.js";
import { service } from "./net/ask.js";
import { screens } from "./screens.js";
import { settings, watchSettings } from "./state/seen.js";
import { time } from "./pure/format.js";

/** @typedef {ReturnType<typeof createFrame>} Frame */

/** Milliseconds that a message stays on the strip. */
const TOLD = 5_000;

/** Places listed in the account menu. */
const OF_ACCOUNT = /** @type {const} */ (["settings", "admin"]);

/** Applies the theme and density settings, and follows changes made in other tabs. */
export function applySettings() {
  const root = document.documentElement;
  const apply = (/** @type {import("./state/seen.js").Settings} */ { theme, density }) => {
    setAttr(root, "data-theme", theme === "system" ? null : theme);
    setAttr(root, "data-density", density);
  };
  apply(settings());
  watchSettings(apply);
}

/**
 * @param {{signOut: () => void, openPalette: () => void, openHelp: () => void}} page
 */
export function createFrame(page) {
  const state = h("span.live");
  const place = h("span.place.one-line");
  const nav = h("nav.places", { "aria-label": shell.places });
  const account = h("details.account");
  const commands = button(shell.commands, page.openPalette, {
    class: "plain",
    "aria-keyshortcuts": "Control+K Meta+K",
  });
  const keys = button("?", page.openHelp, { class: "plain wide-only", "aria-label": shell.help });
  const strip = h("div.strip");
  const room = h("div.strip-room", strip);
  const main = h("main", { id: "main", tabindex: -1 });
  const region = h("div.heard", { role: "status", "aria-live": "polite" });
  const top = h("header.top", place, nav, h("span.end", state), commands, keys, account);
  const frame = h(
    "div.frame",
    h("a.skip", { href: "#main", onclick: skip }, shell.skip),
    top,
    room,
    main,
    region,
  );
  const notice = h("p.told.warn", { hidden: true });
  const alarm = h("p.problem", { hidden: true, role: "alert" });
  const newer = h("p.told", { hidden: true, role: "status", "data-outdated": "" });
  const told = h("p.told", { hidden: true, role: "status", "data-told": "" });
  strip.append(alarm, notice, newer, told);
  const hold = createHold(main);
  new ResizeObserver(settle).observe(strip);

  /** Lets the strip cover the screen while a pointer rests on content that would move. */
  function settle() {
    if (hold.hasPointer()) hold.whenFree(settle, hold.hasPointer);
    else room.style.height = `${strip.offsetHeight}px`;
  }

  /** @param {Event} event */
  function skip(event) {
    event.preventDefault();
    main.focus();
  }

  /** @param {import("./world.js").World} world */
  function fill(world) {
    nav.replaceChildren(
      ...screens
        .filter(({ isPlace }) => isPlace)
        .map(({ id, path }) => link(hrefOf(path), { "data-place": id }, places[/** @type {"board"} */ (id)])),
    );
    fillAccount(world);
  }

  /** @param {import("./world.js").World} world */
  function fillAccount(world) {
    const links = OF_ACCOUNT.flatMap((wanted) => {
      const screen = screens.find(({ id }) => id === wanted);
      return screen
        ? [link(hrefOf(screen.path), { onclick: () => (account.open = false) }, places[wanted])]
        : [];
    });
    account.replaceChildren(
      h("summary", { "aria-label": shell.signedInAs(world.me.handle) }, words(world.me.handle, ".one-line")),
      h(
        "div.menu-body.stack",
        ...links,
        button(shell.signOut, page.signOut, { "data-action": "end_session" }),
      ),
    );
  }

  /** @param {import("./world.js").World} world */
  function showLive(world) {
    const { state: name, since } = world.live();
    setAttr(document.documentElement, "data-live", name);
    setAttr(document.documentElement, "data-lsn", world.store.lsn());
    setText(state, liveWords[name]);
    const told = noticeOf(world, name, since);
    show(notice, told !== "");
    setText(notice, told);
  }

  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let telling;
  /** Shows for a while why a key does nothing, or what it has armed. @param {string} sentence */
  function tell(sentence) {
    clearTimeout(telling);
    show(told, true);
    setText(told, sentence);
    telling = setTimeout(() => show(told, false), TOLD);
  }

  let alarmed = "null";
  /**
   * Shows the alarm of log verification on every screen.
   *
   * @param {import("./world.js").World} world
   */
  function showAlarm(world) {
    const now = world.proof.alarm();
    const found = JSON.stringify(now);
    if (found === alarmed) return;
    alarmed = found;
    show(alarm, now !== null);
    setAttr(alarm, "data-verify", now?.state);
    setAttr(alarm, "data-broken", now?.state === "broken" ? now.lsn : null);
    if (now) void fillAlarm(alarm, now);
  }

  // Dialogs are outside the frame. The document outlives the session, so it gets no listener from here.
  frame.addEventListener("click", ({ target }) => {
    if (account.open && target instanceof Node && !account.contains(target)) account.open = false;
  });
  account.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !account.open) return;
    event.preventDefault();
    account.open = false;
    account.querySelector("summary")?.focus();
  });

  return {
    root: frame,
    main,
    strip,
    say: createSay(region),
    tell,
    fill,
    showLive,
    showAlarm,
    /**
     * Shows that a newer version of the board exists, with a button to reload.
     *
     * @param {(Node | string)[]} told
     */
    showOutdated(told) {
      if (newer.hidden) newer.append(...told);
      show(newer, true);
    },
    /** @param {string} name */
    setWorkspace: (name) => place.replaceChildren(words(name)),
    /** Shows how many items need the user beside the place that lists them. @param {number} count */
    showNeeds(count) {
      const place = nav.querySelector('[data-place="now"]');
      if (place) setText(place, count > 0 ? shell.withCount(places.now, count) : places.now);
    },
    /** Marks the place of the current screen in the navigation. @param {string} id */
    mark(id) {
      for (const anchor of nav.children) {
        setAttr(
          anchor,
          "aria-current",
          anchor instanceof HTMLElement && anchor.dataset.place === id ? "page" : null,
        );
      }
    },
  };
}

/**
 * @param {import("./world.js").World} world
 * @param {import("./world.js").LiveState} state
 * @param {number} since
 */
function noticeOf(world, state, since) {
  if (state === "offline" && world.isForeign) return shell.foreign(service);
  if (state === "offline") return liveWords.offlineSince(time(since), world.store.lsn());
  if (state === "paused") return liveWords.pausedWith(String(world.store.waiting()));
  const trouble = state === "ended" ? null : world.reads.trouble();
  if (trouble) return liveWords.trouble(trouble.code);
  const lacking = world.lacks("subscribe");
  return state === "behind" && lacking ? liveWords.noSubscription(lacking) : "";
}
