// What the browser remembers between visits, and what it remembers of a visit.
//
// Promises: settings and proved heads of the log stay (localStorage), never a word of anybody; drafts stay as
// long as the tab (sessionStorage), under the member whose they are. A browser that stores nothing is no
// failure. Leaves out: what settings mean.

/**
 * @typedef {{theme: "system" | "light" | "dark", density: "comfortable" | "compact", letters: boolean}}
 * Settings
 */

const SETTINGS = "svc.settings";
/** @type {Settings} */
const DEFAULTS = { theme: "system", density: "comfortable", letters: true };

/** @param {string} name @returns {any} */
function stored(name) {
  try {
    return JSON.parse(localStorage.getItem(name) ?? "null");
  } catch {
    return null;
  }
}

/** @param {string} name @param {unknown} value @returns {boolean} Whether it is stored. */
function store(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/** What was set on this page and could not be stored: it counts until the page is closed. @type {Partial<Settings>} */
let unstored = {};
/** @type {Set<(settings: Settings) => void>} */
const watchers = new Set();

/** @returns {Settings} */
export function settings() {
  return { ...DEFAULTS, ...stored(SETTINGS), ...unstored };
}

/** @param {Partial<Settings>} change */
export function changeSettings(change) {
  const all = { ...settings(), ...change };
  unstored = store(SETTINGS, all) ? {} : all;
  tell();
}

function tell() {
  for (const watcher of watchers) watcher(settings());
}

window.addEventListener("storage", ({ key }) => key === SETTINGS && tell());

/**
 * Calls back when the settings have changed, here or in another tab.
 *
 * @param {(settings: Settings) => void} changed
 * @returns {() => void} Ends it.
 */
export function watchSettings(changed) {
  watchers.add(changed);
  return () => watchers.delete(changed);
}

const PUSHED_TO = "svc.push";
/** Whose notifications come to this browser, by the id of the member. */
export const pushedTo = {
  /** @returns {string | null} */
  get: () => stored(PUSHED_TO),
  /** @param {string | null} memberId */
  set: (memberId) => store(PUSHED_TO, memberId),
};

const SIGNED_IN = "svc.signed-in";
/**
 * Tells the other tabs who is signed in: all of them send the cookie of that session from then on.
 *
 * @param {string | null} sessionId
 */
export const tellSession = (sessionId) => store(SIGNED_IN, sessionId);

/** Calls back when another tab has signed in or out. @param {() => void} changed */
export function watchSession(changed) {
  window.addEventListener("storage", ({ key }) => key === SIGNED_IN && changed());
}

/**
 * Read marks, which no event tells: other tabs of the same member learn that there are new ones, not which.
 *
 * @param {string} memberId
 */
export function readMarksOf(memberId) {
  const name = `svc.read.${memberId}`;
  return {
    tell: () => store(name, (Number(stored(name)) || 0) + 1),
    /** Calls back when another tab has told. @param {() => void} changed @returns {() => void} Ends it. */
    watch(changed) {
      const heard = (/** @type {StorageEvent} */ { key }) => key === name && changed();
      window.addEventListener("storage", heard);
      return () => window.removeEventListener("storage", heard);
    },
  };
}

/**
 * The head of a workspace's log that was proved last.
 *
 * @param {string} workspaceId
 */
export function pinOf(workspaceId) {
  const name = `svc.pin.${workspaceId}`;
  return {
    /** @returns {import("../pure/verify.js").Pin | null} */
    get: () => stored(name),
    /** @param {import("../pure/verify.js").Pin} pin */
    set: (pin) => store(name, pin),
  };
}

/**
 * What was found of a workspace's log that everybody has to see: where it is broken, or what became of the
 * history that was proved.
 *
 * @param {string} workspaceId
 */
export function alarmOf(workspaceId) {
  const name = `svc.alarm.${workspaceId}`;
  return {
    /** @returns {import("../proof.js").Kept | null} */
    get: () => stored(name),
    /** @param {import("../proof.js").Kept | null} alarm */
    set: (alarm) => store(name, alarm),
    /** Calls back when another tab has found something. @param {() => void} changed @returns {() => void} Ends it. */
    watch(changed) {
      const heard = (/** @type {StorageEvent} */ { key }) => key === name && changed();
      window.addEventListener("storage", heard);
      return () => window.removeEventListener("storage", heard);
    },
  };
}

/**
 * Whether the steps of the first run were hidden in a workspace.
 *
 * @param {string} workspaceId
 */
export function firstRunOf(workspaceId) {
  const name = `svc.first.${workspaceId}`;
  return { isDone: () => stored(name) === true, done: () => store(name, true) };
}

/**
 * What somebody has begun to write, by the place where it is written.
 *
 * @param {string} memberId
 */
export function draftsOf(memberId) {
  const name = (/** @type {string} */ place) => `svc.draft.${memberId}.${place}`;
  return {
    /** @param {string} place */
    get(place) {
      try {
        return sessionStorage.getItem(name(place)) ?? "";
      } catch {
        return "";
      }
    },
    /** @param {string} place @param {string} text */
    set(place, text) {
      try {
        if (text) sessionStorage.setItem(name(place), text);
        else sessionStorage.removeItem(name(place));
      } catch {
        // Then it is in the field alone.
      }
    },
  };
}

/**
 * Forgets every draft but those of whoever has signed in.
 *
 * @param {string} [memberId]
 */
export function dropDrafts(memberId) {
  try {
    for (const name of Object.keys(sessionStorage)) {
      const isKept = memberId !== undefined && name.startsWith(`svc.draft.${memberId}.`);
      if (name.startsWith("svc.draft.") && !isKept) sessionStorage.removeItem(name);
    }
  } catch {
    // There are none.
  }
}
