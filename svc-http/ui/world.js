// The context of every screen, panel and action: the session, the known data, and services to read and write.
//
// Guarantees: one object per session; closing it ends everything that it has started. Not here: the page.

import { newClock, sample, serverNow } from "./pure/clock.js";
import { acting } from "./strings/en.js";
import { createNames } from "./names.js";
import { createProof } from "./proof.js";
import { granting } from "./pure/lanes.js";
import { addressOf, createAsk, operations } from "./net/ask.js";
import { createLive } from "./net/live.js";
import { createOutbox } from "./net/outbox.js";
import { createBoard } from "./state/board.js";
import { createLeases } from "./state/leases.js";
import { createNeeds } from "./state/needs.js";
import { createReads } from "./state/reads.js";
import { draftsOf, readMarksOf } from "./state/seen.js";
import { createSweep } from "./state/sweep.js";
import { createWaits } from "./state/waits.js";
import { ALL, createStore } from "./state/store.js";
import { readThreads } from "./state/threads.js";

/** @typedef {import("./net/session.js").Session} Session */
/** @typedef {"live" | "behind" | "offline" | "paused" | "ended"} LiveState */
/**
 * @typedef {{state: LiveState, since: number}} Live `since`: local time when the state was last good.
 */
/** @typedef {ReturnType<typeof createWorld>} World */
/**
 * Callbacks into the page.
 *
 * @typedef {{
 *   keys: ReturnType<typeof import("./view/keys.js").createKeys>,
 *   go: (href: string) => void,
 *   note: (query: string, fragment?: string) => void,
 *   back: () => void,
 *   title: (text: string) => void,
 *   say: (sentence: string) => void,
 *   tell: (sentence: string) => void,
 *   ended: () => void,
 *   refused: (reason: string) => void,
 *   rewound: () => void,
 * }} Page
 */

/** Milliseconds between reads for a session that may not subscribe. */
const READ_ANEW = 30_000;
/** Milliseconds between reads of the visible channels: no event reports that a member lost access to one. */
const LOOK_AGAIN = 60_000;

/**
 * @param {Session} session
 * @param {Page} page
 */
export function createWorld(session, page) {
  const needsOf = (/** @type {string} */ operation) => operations[operation]?.[2] ?? "";
  const grants = granting(needsOf("approval_decide"), needsOf("request_approval"));
  const me = { ...session, mayGrant: session.capabilities.includes(grants) };
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
    isEnded: () => live.state === "ended",
    heard({ status, lsn, date, sent, received }) {
      if (date) clock = sample(clock, { sent, received, date });
      if (lsn > highest) highest = lsn;
      if (lsn) socket?.ahead(lsn);
      if (status === 401) page.ended();
    },
  });

  /**
   * Returns the capability that the session lacks for an operation, or null if it lacks none.
   *
   * @param {string} operation
   */
  function lacks(operation) {
    const needs = needsOf(operation);
    const isHeld = needs.split("|").some((one) => ANYBODY.has(one) || me.capabilities.includes(one));
    return isHeld ? null : needs;
  }
  const may = (/** @type {string} */ operation) => lacks(operation) === null;
  const store = createStore(me);
  const reads = createReads({ store, ask, lacks });

  /** Sets the connection state and redraws. @param {LiveState} state @param {number} [since] */
  function setLive(state, since = Date.now()) {
    if (state === live.state && state !== "offline") return;
    const wasAway = AWAY.test(live.state) && !AWAY.test(state);
    live = { state, since };
    if (state === "ended") socket?.end();
    if (state === "live") outbox.wake();
    for (const watcher of liveWatchers) watcher();
    store.touch(wasAway ? ["live/state", "live/heard"] : ["live/state"]);
  }

  /** Begins to follow the log from the position of the first answer. @param {number} lsn */
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
        state: setLive,
        refused: page.refused,
        rewound: () => page.rewound(),
        head: async () => (await ask("get_room")).body.head,
        async hashAt(lsn) {
          const { items } = (await ask("list_events", { after_id: lsn - 1, limit: 1 })).body;
          return items[0]?.lsn === lsn ? items[0].content_hash : null;
        },
        probe: async (signal) => (await ask("whoami", {}, { head: true, signal })).lsn,
      },
    });
  }

  /** @type {ReturnType<typeof setInterval> | undefined} */
  let readAnew;
  function followByReading() {
    setLive("behind");
    readAnew = setInterval(wake, READ_ANEW);
  }

  /** Resumes when the page becomes visible again or the network is back. */
  function wake() {
    outbox.wake();
    reads.again("list/channels");
    if (socket) socket.wake();
    else if (readAnew)
      ask("whoami", {}, { head: true }).then(
        ({ lsn }) => {
          store.touch(["live/heard"]);
          if (lsn > store.lsn()) store.restart(lsn);
          else if (lsn && lsn < store.lsn()) page.rewound();
        },
        () => {},
      );
  }

  const looking = setInterval(() => document.hidden || reads.again("list/channels"), LOOK_AGAIN);

  const outbox = createOutbox({
    ask,
    // Events up to this position are older than the write.
    lsn: () => Math.max(store.lsn(), highest),
    memberId: me.member_id,
    changed: ({ about }) => store.touch([about]),
  });
  store.index(({ events }) => events.length && outbox.seen(events));
  reads.wish().set(["list/members", "list/channels"]);

  /** @type {ReturnType<typeof createNeeds> | null} */
  let needing = null;
  /** Starts tracking what needs the user, on first use. */
  function needs() {
    const arrived = (/** @type {import("./pure/rank.js").Need} */ need) => page.say(acting.needsYou(need.kind));
    needing ??= createNeeds({ store, reads, me, now: () => serverNow(clock, Date.now()), arrived });
    return needing;
  }

  /** @type {ReturnType<typeof readTasks> | null} */
  let tasks = null;
  /** Reads the tasks of the workspace on first use, and keeps them sorted into lanes. */
  function readTasks() {
    const board = createBoard(store, me);
    const wish = reads.wish();
    wish.set(["list/deferred", "list/dms", "list/follows", "list/closings"]);
    needs();
    const threads = readThreads({ ask, store }, () => store.touch(["list/threads"]));
    const unwatch = store.index((changes) => {
      board.update(changes);
      if (changes.lists.has(ALL)) threads.again();
    });
    return { ...board, ...threads, close: () => (threads.close(), unwatch(), wish.close()) };
  }

  const readMarks = readMarksOf(me.member_id);
  /** Reads the lists that depend on read marks. */
  const readInbox = () => ["inbox", "inbox_all", "dms"].forEach((name) => reads.again(`list/${name}`));
  const unwatchMarks = readMarks.watch(readInbox);

  const sweep = createSweep({
    store,
    isWanted: reads.isWanted,
    isLatest: ({ id, thread_id }) => tasks?.latestOf(thread_id) === id,
    isShown: (id) => tasks?.isShown(id) ?? true,
  });

  /** @type {Set<() => void>} */
  const endings = new Set();

  const proof = createProof({
    workspaceId: me.workspace_id,
    isWhole: () => may("catch_up_events"),
    changed: () => store.touch(["log/proof"]),
  });

  return {
    me,
    /** The capability that accepts approvals. */
    grants,
    ask,
    store,
    reads,
    outbox,
    sweep,
    leaseOf: createLeases(store),
    proof,
    waits: createWaits(store, ({ title }) => page.say(acting.free(title))),
    lacks,
    may,
    drafts: draftsOf(me.member_id),
    keys: page.keys,
    go: page.go,
    /** Sets the query of the screen's address. */
    note: page.note,
    /** Goes back to the previous screen. */
    back: page.back,
    /** Sets the title of the screen. */
    title: page.title,
    say: page.say,
    tell: page.tell,
    follow,
    wake,
    /** Continues with a new session of the same member. @param {Session} session */
    resume(session) {
      Object.assign(me, session);
      setLive("behind");
      if (socket) socket.renew();
      else wake();
    },
    /** Returns the server's time in milliseconds. */
    now: () => serverNow(clock, Date.now()),
    live: () =>
      store.isPaused() && live.state === "live" ? { ...live, state: /** @type {const} */ ("paused") } : live,
    /** Returns whether events of the user's own writes arrive and are shown. */
    isFollowing: () => socket !== null && !store.isPaused(),
    /** Returns whether nothing can be sent now. */
    isOffline: () => live.state === "offline" || live.state === "ended",
    setLive,
    /** Whether the service accepts the session on requests but refuses the socket. */
    isForeign: false,
    /** @param {() => void} watcher @returns {() => void} */
    watchLive(watcher) {
      liveWatchers.add(watcher);
      return () => liveWatchers.delete(watcher);
    },
    /** Updates lists after something was marked read, and notifies other tabs of the member. */
    markedRead() {
      readInbox();
      readMarks.tell();
    },
    needs,
    seenNeed: needSeen(),
    tasks: () => (tasks ??= readTasks()),
    /** Functions to call when the world is closed. */
    endings,
    names: createNames({ store, reads }),
    close() {
      tasks?.close();
      for (const end of endings) end();
      needing?.close();
      unwatchMarks();
      sweep.close();
      outbox.close();
      proof.close();
      clearInterval(readAnew);
      clearInterval(looking);
      socket?.close();
      reads.close();
      store.close();
    },
  };
}

/** The need that was shown last, from which `.` continues. */
function needSeen() {
  let seen = "";
  return {
    get: () => seen,
    set: (/** @type {string} */ key) => (seen = key),
  };
}

const AWAY = /^(?:offline|ended)$/;
/** Requirements that every session meets. */
const ANYBODY = new Set(["any", "none", "session", ""]);
