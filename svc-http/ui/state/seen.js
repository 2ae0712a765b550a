// Data that the browser stores, across visits or for one tab.
//
// Guarantees: settings, ids of the session and the notified member, verified heads and alarms of the log
// persist (localStorage), but no text that members wrote; drafts last as long as the tab (sessionStorage),
// separately per member; a browser that cannot store is tolerated. Not here: the meaning of settings.

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

/** @param {string} name @param {unknown} value @returns {boolean} Whether the value was stored. */
function store(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/** Settings that could not be stored; they apply until the page is closed. @type {Partial<Settings>} */
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
 * Calls back when the settings change, here or in another tab.
 *
 * @param {(settings: Settings) => void} changed
 * @returns {() => void} Ends the watch.
 */
export function watchSettings(changed) {
  watchers.add(changed);
  return () => watchers.delete(changed);
}

const PUSHED_TO = "svc.push";
/** Id of the member who receives notifications in this browser. */
export const pushedTo = {
  /** @returns {string | null} */
  get: () => stored(PUSHED_TO),
  /** @param {string | null} memberId */
  set: (memberId) => store(PUSHED_TO, memberId),
};

const SIGNED_IN = "svc.signed-in";
/**
 * Notifies other tabs of the signed-in session, whose cookie all of them send from then on.
 *
 * @param {string | null} sessionId
 */
export const tellSession = (sessionId) => store(SIGNED_IN, sessionId);

/** Calls back when another tab has signed in or out. @param {() => void} changed */
export function watchSession(changed) {
  window.addEventListener("storage", ({ key }) => key === SIGNED_IN && changed());
}

/**
 * Signals to other tabs of the same member that there are new read marks, since no event reports them.
 *
 * @param {string} memberId
 */
export function readMarksOf(memberId) {
  const name = `svc.read.${memberId}`;
  return {
    tell: () => store(name, (Number(stored(name)) || 0) + 1),
    /**
     * Calls back when another tab has signalled.
     *
     * @param {() => void} changed
     * @returns {() => void} Ends the watch.
     */
    watch(changed) {
      const heard = (/** @type {StorageEvent} */ { key }) => key === name && changed();
      window.addEventListener("storage", heard);
      return () => window.removeEventListener("storage", heard);
    },
  };
}

/**
 * The last verified head of a workspace's log.
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
 * The alarm about a workspace's log that every screen shows: where it is broken, or how the verified history
 * changed.
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
    /**
     * Calls back when another tab has set or cleared the alarm.
     *
     * @param {() => void} changed
     * @returns {() => void} Ends the watch.
     */
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
 * Drafts of a member, by the field where they are written.
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
        // Without storage the text is only in the field.
      }
    },
  };
}

/**
 * Deletes every draft except those of the given member.
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
    // Without storage there are no drafts.
  }
}
