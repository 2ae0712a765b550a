// The board: signs in, opens the screen of the address, and follows changes of session and address.
//
// Guarantees: everything that one member saw and wrote is removed before another member sees the page; when a
// session ends, the screen stays unchanged under a dialog. Not here: the content of screens.

import { createAsk } from "./net/ask.js";
import { epochOf, readSession } from "./net/session.js";
import { applySettings, createFrame } from "./frame.js";
import { keepPushOf, watchPush } from "./push-here.js";
import { openStage } from "./stage.js";
import { dropDrafts, settings, tellSession, watchSession } from "./state/seen.js";
import { shell, signIn as say } from "./strings/en.js";
import { openDialog } from "./view/dialog.js";
import { createKeys } from "./view/keys.js";
import { h } from "./view/node.js";
import { createWorld } from "./world.js";

/** @typedef {import("./net/session.js").SignedIn} SignedIn */
/** @typedef {import("./net/session.js").Ways} Ways */

const TRY_AGAIN = 3_000;
/** Close reason of a socket without a session. */
const NOBODY = "unauthenticated";
/** @type {Ways} What to offer while the server has not reported its sign-in methods. */
const BY_TOKEN = { token: true, oidc: false };

applySettings();
const ask = createAsk({ workspace: () => null });
const keys = createKeys(document, () => settings().letters);
/** @type {{world: import("./world.js").World, stage: ReturnType<typeof openStage>} | null} */
let running = null;
/** The dialog over the screen while the session has ended. @type {ReturnType<typeof openDialog> | null} */
let ended = null;
/** Whether the session is being checked. */
let isLooking = false;
/** Whether the server refused the socket because it had no session. */
let isUnheard = false;
/** Whether the log was rewound, so the page shows data of a log that no longer exists. */
let isRewound = false;

/** Number of the latest `openBoard` call; if there are two links, the later one wins. */
let opening = 0;

/**
 * Opens the board; with the token of a link, opens the sign-in form instead.
 *
 * @param {string | null} linkToken
 */
export async function openBoard(linkToken) {
  const mine = (opening += 1);
  stop();
  const { signedIn, ways } = await untilAnswered();
  if (mine !== opening) return;
  if (linkToken) showSignIn({ ways: ways ?? BY_TOKEN, linkToken, ...keeping(signedIn) });
  else if (signedIn) start(signedIn);
  else showSignIn({ ways, linkToken: null, current: null });
}

async function untilAnswered() {
  for (;;) {
    try {
      return await readSession(ask);
    } catch (error) {
      showWaiting(/** @type {import("./net/ask.js").Problem} */ (error));
      await new Promise((resume) => setTimeout(resume, TRY_AGAIN));
    }
  }
}

/**
 * Returns the current session for the sign-in form: a link must not end another member's session unasked.
 *
 * @param {SignedIn | null} signedIn
 */
function keeping(signedIn) {
  return signedIn ? { current: signedIn.session, keep: () => start(signedIn) } : { current: null };
}

/** @param {{status: number, code: string}} problem */
function showWaiting({ status, code }) {
  const text = status === 0 || status >= 500 ? say.unreachable : say.unexpected(code);
  document.body.replaceChildren(
    h("main.sign-in.stack", h("h1", shell.product), h("p.problem", { role: "alert" }, text)),
  );
}

/**
 * Opens the sign-in form, which is not loaded for signed-in members.
 *
 * @param {HTMLElement} place
 * @param {import("./screens/sign-in.js").Setting} setting
 */
async function openSignIn(place, setting) {
  const screen = await import("./screens/sign-in.js");
  screen.openSignIn(place, setting);
}

/** @param {Omit<import("./screens/sign-in.js").Setting, "signedIn">} setting */
function showSignIn(setting) {
  const place = h("div.stack");
  document.documentElement.dataset.live = "ended";
  document.body.replaceChildren(
    h("main.sign-in.stack", { "data-screen": "sign-in" }, h("h1", say.title), place),
  );
  document.title = shell.title(say.title, shell.product);
  void openSignIn(place, { ...setting, signedIn: start });
}

/**
 * Opens the board for a member, and first removes the data of the previous one.
 *
 * @param {SignedIn} signedIn
 */
function start({ session, lsn }) {
  // The query may contain search terms of the previous member.
  if (running && epochOf(running.world.me) !== epochOf(session))
    history.replaceState(null, "", location.pathname);
  isRewound = false;
  dropDrafts(session.member_id);
  tellSession(session.session_id);
  void keepPushOf(session.member_id);
  stop();
  const frame = createFrame({
    signOut,
    openPalette: () => running?.stage.openPalette(),
    openHelp: () => running?.stage.openHelp(),
  });
  const world = createWorld(session, {
    keys,
    // A late answer from a previous session must not move the current page.
    go: (href) => stageOf(world)?.go(href),
    note: (query, fragment) => stageOf(world)?.note(query, fragment),
    back: () => stageOf(world)?.back(),
    title: (text) => stageOf(world)?.title(text),
    say: frame.say,
    tell: frame.tell,
    ended: () => void look(),
    refused(reason) {
      isUnheard = reason.startsWith(NOBODY);
      void look();
    },
    rewound() {
      isRewound = true;
      void look();
    },
  });
  document.body.replaceChildren(frame.root);
  frame.fill(world);
  world.watchLive(() => {
    if (world.live().state === "live") world.isForeign = isUnheard = false;
  });
  // Follow the log before the first read, so that no event in between is missed.
  world.follow(lsn);
  running = { world, stage: openStage(frame, world) };
}

/** @param {import("./world.js").World} world */
const stageOf = (world) => (running?.world === world ? running.stage : null);

function stop() {
  ended?.close();
  ended = null;
  running?.stage.close();
  running?.world.close();
  running = null;
}

/**
 * Checks the session after a refusal, a closed socket or a sign-in in another tab. Requests are sent with the
 * session of the browser, which may differ from that of the page.
 */
async function look() {
  if (!running || isLooking) return;
  isLooking = true;
  const { world } = running;
  try {
    const { signedIn, ways } = await readSession(ask);
    if (running?.world !== world) return;
    if (signedIn && (ended || isRewound || !isSame(signedIn.session, world.me))) resume(signedIn);
    else if (!signedIn && !ended) showEnded(ways);
    else if (signedIn && isUnheard) tellForeign(world);
  } catch {
    // The server cannot be reached now; the next refusal triggers another check.
  } finally {
    isLooking = false;
    if (isRewound && !ended) setTimeout(() => void look(), TRY_AGAIN);
  }
}

/**
 * Returns whether everything on the page still matches the session's member and capabilities.
 *
 * @param {import("./net/session.js").Session} session
 * @param {import("./net/session.js").Session} before
 */
function isSame(session, before) {
  const rights = (/** @type {import("./net/session.js").Session} */ one) => [...one.capabilities].sort().join();
  return epochOf(session) === epochOf(before) && rights(session) === rights(before);
}

/**
 * Shows the service as offline: behind a proxy that changes the origin, the server refuses the socket of this
 * session.
 *
 * @param {import("./world.js").World} world
 */
function tellForeign(world) {
  world.isForeign = true;
  world.setLive("offline", world.live().since);
}

/** @param {Ways} ways */
function showEnded(ways) {
  if (!running) return;
  const { world } = running;
  world.setLive("ended");
  const place = h("div.stack");
  const hint = h("p", say.endedHint);
  // If the user is typing, the keystrokes must not end up in the token field.
  const isTyping = Boolean(document.activeElement?.matches("input, textarea, select"));
  ended = openDialog({ title: say.ended, body: [hint, place], name: "session-ended" });
  void openSignIn(place, { ways, linkToken: null, current: null, isTyping, signedIn: resume });
}

/**
 * Continues after a new sign-in at the same address; the same member with the same capabilities keeps the
 * page and its unsent input.
 *
 * @param {SignedIn} signedIn
 */
function resume(signedIn) {
  if (!running || isRewound || !isSame(signedIn.session, running.world.me)) return start(signedIn);
  ended?.close();
  ended = null;
  tellSession(signedIn.session.session_id);
  running.world.resume(signedIn.session);
}

async function signOut() {
  void keepPushOf(null);
  try {
    await ask("end_session");
  } catch {
    // The session has already ended, or will expire.
  }
  tellSession(null);
  dropDrafts();
  stop();
  history.replaceState(null, "", location.pathname);
  const { ways } = await readSession(ask).catch(() => ({ ways: BY_TOKEN }));
  showSignIn({ ways: ways ?? BY_TOKEN, linkToken: null, current: null });
}

watchPush((href) => running?.stage.go(href));
document.addEventListener("visibilitychange", () => {
  running?.world.store.hide(document.hidden);
  if (!document.hidden) wake();
});
for (const event of ["online", "focus"]) window.addEventListener(event, wake);
// A page restored from the browser's back-forward cache was suspended.
window.addEventListener("pageshow", ({ persisted }) => persisted && wake());
watchSession(() => void look());

/** Checks the session when the page becomes active again, because another member may have signed in. */
function wake() {
  running?.world.wake();
  void look();
}
