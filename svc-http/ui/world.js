// What every screen, panel and action is given: who is signed in, what is known, and the ways to learn and do
// more.
//
// Promises: one object a session; closing it ends all that it has begun. Leaves out: the page.

import { isKnown, newClock, sample, serverNow } from "./pure/clock.js";
import { addressOf, createAsk, operations } from "./net/ask.js";
import { createLive } from "./net/live.js";
import { createReads } from "./state/reads.js";
import { draftsOf } from "./state/seen.js";
import { createStore } from "./state/store.js";

/** @typedef {import("./net/session.js").Session} Session */
/** @typedef {"live" | "behind" | "offline" | "paused" | "ended"} LiveState */
/**
 * @typedef {{state: LiveState, since: number}} Live `since`: when the state was last known to be good, by the
 * browser.
 */
/** @typedef {ReturnType<typeof createWorld>} World */

/** How often a session that may not subscribe reads anew. */
const READ_ANEW = 30_000;

/**
 * @param {Session} me
 * @param {{go: (href: string) => void, say: (sentence: string) => void, ended: () => void}} page
 */
export function createWorld(me, page) {
  let clock = newClock();
  let highest = 0;
  /** @type {Live} */
  let live = { state: "behind", since: Date.now() };
  /** @type {ReturnType<typeof createLive> | null} */
  let socket = null;
  /** @type {Set<() => void>} */
  const liveWatchers = new Set();

  const ask = createAsk({
    workspace: () => me.workspace_id,
    heard({ status, lsn, date, sent, received }) {
      if (date) clock = sample(clock, { sent, received, date });
      if (lsn > highest) highest = lsn;
      if (lsn) socket?.ahead(lsn);
      if (status === 401) page.ended();
    },
  });

  /**
   * Returns the capability that the session lacks for an operation, or null if it has what is needed.
   *
   * @param {string} operation
   */
  function lacks(operation) {
    const needs = operations[operation]?.[2] ?? "";
    const isHeld = needs.split("|").some((one) => ANYBODY.has(one) || me.capabilities.includes(one));
    return isHeld ? null : needs;
  }
  const may = (/** @type {string} */ operation) => lacks(operation) === null;
  const store = createStore(me);
  const reads = createReads({ store, ask, may });

  /** @param {LiveState} state @param {number} since */
  function setLive(state, since) {
    if (state === live.state && state !== "offline") return;
    live = { state, since };
    for (const watcher of liveWatchers) watcher();
  }

  /** Begins to follow the log from where the first answer stood. @param {number} lsn */
  function follow(lsn) {
    store.reach(lsn);
    if (!may("subscribe")) return followByReading();
    socket = createLive({
      address: () => addressOf("subscribe"),
      workspaceId: me.workspace_id,
      afterId: lsn,
      hooks: {
        events: (events) => store.receive(/** @type {any} */ (events)),
        gap: (lsn) => store.restart(lsn),
        state: (state, since) => setLive(state, since),
        refused: () => page.ended(),
        probe: async () => (await ask("whoami", {}, { head: true })).lsn,
      },
    });
  }

  /** @type {ReturnType<typeof setInterval> | undefined} */
  let readAnew;
  function followByReading() {
    setLive("behind", Date.now());
    readAnew = setInterval(wake, READ_ANEW);
  }

  /** The page is looked at again, or the network is back. */
  function wake() {
    if (socket) socket.wake();
    else if (readAnew)
      ask("whoami", {}, { head: true }).then(
        ({ lsn }) => lsn > store.lsn() && store.restart(lsn),
        () => {},
      );
  }

  return {
    me,
    ask,
    store,
    reads,
    lacks,
    may,
    drafts: draftsOf(me.member_id),
    go: page.go,
    say: page.say,
    follow,
    wake,
    /** The server's time, in milliseconds. */
    now: () => serverNow(clock, Date.now()),
    hasClock: () => isKnown(clock),
    live: () =>
      store.isPaused() && live.state === "live" ? { ...live, state: /** @type {const} */ ("paused") } : live,
    /** Whether nothing can be sent now. */
    isOffline: () => live.state === "offline" || live.state === "ended",
    setLive,
    /** @param {() => void} watcher @returns {() => void} */
    watchLive(watcher) {
      liveWatchers.add(watcher);
      return () => liveWatchers.delete(watcher);
    },
    close() {
      clearInterval(readAnew);
      socket?.close();
      reads.close();
      store.close();
    },
  };
}

/** What an operation needs of nobody in particular. */
const ANYBODY = new Set(["any", "none", "session", ""]);
