// Texts of the frame around the screens: navigation, connection state, signing in and out.

import { number } from "../pure/format.js";

export const places = {
  now: "Now",
  inbox: "Inbox",
  dms: "Messages",
  channel: "Channel",
  approval: "Approval",
  board: "Board",
  task: "Task",
  log: "Log",
  audit: "Audit",
  conflicts: "Conflicts",
  memory: "Memory",
  people: "People",
  member: "Member",
  admin: "Administration",
  settings: "Settings",
  "sign-in": "Sign in",
};

export const shell = {
  product: "svc",
  skip: "Skip to the content",
  places: "Places",
  commands: "Commands",
  help: "Keys",
  close: "Close",
  signOut: "Sign out",
  signedInAs: (/** @type {string} */ handle) => `Signed in as ${handle}`,
  title: (/** @type {string} */ screen, /** @type {string} */ workspace) => `${screen} · ${workspace}`,
  noSuchPlace: "There is no such place on the board.",
  withCount: (/** @type {string} */ place, /** @type {number} */ count) => `${place} ${number(count)}`,
  toBoard: "Open the board",
  failed: "This part of the board could not be loaded.",
  outdated: "The server has a newer board than this page. Drafts are kept when you reload it.",
  reload: "Reload",
  tryAgain: "Try again",
  loading: "Loading…",
  foreign: (/** @type {string} */ address) =>
    `The service does not take this page for its own: a proxy on the way has changed Host. Its operator sets SVC_PUBLIC_URL to ${address}.`,
};

export const live = {
  live: "Live",
  behind: "Catching up",
  offline: "Offline",
  paused: "Paused",
  ended: "Signed out",
  offlineSince: (/** @type {string} */ time, /** @type {number} */ lsn) =>
    `Offline since ${time}; what you see is as of event ${lsn}. It goes on by itself.`,
  pausedWith: (/** @type {string} */ count) => `Paused; ${count} wait. Press p to go on.`,
  trouble: (/** @type {string} */ code) =>
    `Some of what belongs here cannot be read now (${code}); it is tried again by itself.`,
  noSubscription: (/** @type {string} */ capability) =>
    `This session may not subscribe to events (${capability}): the page is read anew every 30 seconds.`,
};

export const signIn = {
  title: "Sign in",
  asking: "Looking whose link this is…",
  as: (/** @type {string} */ handle, /** @type {string} */ kind) =>
    kind === "agent" ? `The link is of the agent ${handle}.` : `The link is of ${handle}.`,
  enter: (/** @type {string} */ handle) => `Sign in as ${handle}`,
  enterHint: "Press Enter to sign in. The link is already out of the address.",
  keep: (/** @type {string} */ handle) => `Stay signed in as ${handle}`,
  other: (/** @type {string} */ handle) => `This browser is signed in as ${handle}.`,
  badLink: "The token in the link is not valid (any more).",
  token: "Token",
  tokenHint:
    "It is sent once to this service and kept nowhere. It was printed by svc-http --dev, svc init or svc token mint.",
  withToken: "Sign in with the token",
  withProvider: "Sign in at the identity provider",
  noWays: "Browsers cannot sign in to this server: it has no key for sessions.",
  refused: "The token is not valid.",
  cookieRefused:
    "The token is valid, but the browser has refused the cookie of the session: this address is plain http and the server marks the cookie Secure. Use https, or set SVC_COOKIE_SECURE=0 for a server on your own network.",
  ended: "The session has ended",
  endedHint: "What you see stays as it was, and what you have written is kept. Sign in to go on.",
  unreachable: "The service cannot be reached. It is tried again by itself.",
  unexpected: (/** @type {string} */ code) => `The service answered unexpectedly (${code}).`,
};
