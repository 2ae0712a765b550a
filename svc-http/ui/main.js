// The board: signs in, opens the screen of the address, and keeps both as the session and the address change.
//
// Promises: what one member saw and wrote is gone before another sees the page; the end of a session leaves the
// screen as it was, under a dialog.
// Leaves out: everything that a screen shows.

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
/** How a socket is closed that is of no session. */
const NOBODY = "unauthenticated";
/** @type {Ways} What can be offered without having been told. */
const BY_TOKEN = { token: true, oidc: false };

applySettings();
const ask = createAsk({ workspace: () => null });
const keys = createKeys(document, () => settings().letters);
/** @type {{world: import("./world.js").World, stage: ReturnType<typeof openStage>} | null} */
let running = null;
/** The dialog over the screen, while the session has ended. @type {ReturnType<typeof openDialog> | null} */
let ended = null;
/** Whether the session is being looked at because somebody said that it has ended. */
let isLooking = false;
/** Whether the socket was refused as one of nobody. */
let isUnheard = false;
/** Whether what is on the page is of a log that is no more. */
let isRewound = false;

/** Counts what the page was opened with: of two links the later one counts. */
let opening = 0;

/**
 * Opens the board; with a link's token it is offered to sign in.
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

/** A link does not end the session of somebody else unasked. @param {SignedIn | null} signedIn */
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
 * Who is signed in need not load it.
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

/** Shows the board to somebody; what another has seen is gone first. @param {SignedIn} signedIn */
function start({ session, lsn }) {
  // What another looked for stands in the query.
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
    // An answer that comes late moves nobody else.
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
  // Followed from before anything is read, so that nothing happens in between.
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
 * Looks whose session it is: a refusal, a closed socket or another tab has made it doubtful. What is pressed here
 * is sent with the session of the browser, not with that of the page.
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
    // It cannot be told now; whoever is refused next asks again.
  } finally {
    isLooking = false;
    if (isRewound && !ended) setTimeout(() => void look(), TRY_AGAIN);
  }
}

/**
 * Whether all that is on the page is still what somebody may see and do.
 *
 * @param {import("./net/session.js").Session} session
 * @param {import("./net/session.js").Session} before
 */
function isSame(session, before) {
  const rights = (/** @type {import("./net/session.js").Session} */ one) => [...one.capabilities].sort().join();
  return epochOf(session) === epochOf(before) && rights(session) === rights(before);
}

/** A proxy has made the page another site's, for all that is not a plain read. @param {import("./world.js").World} world */
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
  // What somebody is typing is no token.
  const isTyping = Boolean(document.activeElement?.matches("input, textarea, select"));
  ended = openDialog({ title: say.ended, body: [hint, place], name: "session-ended" });
  void openSignIn(place, { ways, linkToken: null, current: null, isTyping, signedIn: resume });
}

/**
 * Goes on after a new sign-in, at the same address; the same member keeps the page with all that is begun on it.
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
    // The session had ended by itself, or will.
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
// A page that comes back from the browser's cache was asleep.
window.addEventListener("pageshow", ({ persisted }) => persisted && wake());
watchSession(() => void look());

/** The page is looked at again; its session may be another's by now. */
function wake() {
  running?.world.wake();
  void look();
}
