// Texts of the log, of its verification, and of the event dialog.

import { plural } from "./plural.js";

export const log = {
  title: "Log",
  list: "Events, newest first",
  filter: "Filter the log",
  filterHint: "Words, @member, in:channel or a number",
  kinds: "Kinds",
  kindsChosen: (/** @type {number} */ count) => plural(count, { one: "# kind", other: "# kinds" }),
  allKinds: "All kinds",
  noKinds: "The kinds could not be read.",
  ofThread: "Only the task ",
  dropThread: "Show all tasks",
  noSuchChannel: (/** @type {string} */ name) => `There is no channel “${name}” that you can see.`,
  noSuchMember: (/** @type {string} */ name) => `There is no member “${name}”.`,
  waits: (/** @type {number} */ count) => plural(count, { one: "# new event", other: "# new events" }),
  reading: "Reading the log…",
  unread: "The log could not be read.",
  tryAgain: "Try again",
  none: "No event fits.",
  lookedTo: (/** @type {number} */ low) => `Looked through down to event ${low}.`,
  begins: (/** @type {number} */ floor) =>
    floor > 1 ? `The log begins at event ${floor}: what was before is pruned.` : "This is where the log begins.",
  full: "This is as much as is listed; filter to see more.",
  further: "Look further back",
  event: (/** @type {number} */ lsn) => `Event ${lsn}`,
  isBroken: "broken",
  withdrawn: "a message that was withdrawn",
};

export const proof = {
  title: "Is it the log that was written?",
  here: "Recomputed here, in your browser",
  again: "Verify again",
  newer: (/** @type {number} */ count) =>
    plural(count, { one: "# newer event is not verified yet.", other: "# newer events are not verified yet." }),
  partly: (/** @type {string} */ capability) => `The whole log needs ${capability}, which this session does not have.`,
  trust: "Remember this log from now on",
  trustHint: "Remember it if you know why it is another one, as after a backup was restored.",
  server: "The server's own word",
  serverHint: "It proves nothing to you by itself, and it covers what you cannot see.",
  ask: "Ask the server",
  asking: "The server verifies…",
  says: (/** @type {number} */ events, /** @type {number} */ head) =>
    plural(events, { one: `It says: valid, # event up to event ${head}.`, other: `It says: valid, # events up to event ${head}.` }),
  saysBroken: (/** @type {number} */ lsn) => `It says: broken at event ${lsn}.`,
  sameHead: "Its head is the one that was recomputed here.",
  otherHead: "Its head is not the one that was recomputed here.",
  toLog: "Open the log",
  toEvent: "Open the event",
  remembered: (/** @type {number} */ lsn) =>
    `This browser remembers its head, event ${lsn}, and says so if it is ever another one.`,
};

export const event = {
  close: "Close",
  reading: "Reading the event…",
  absent: "It is not there, was pruned, or is withheld from you.",
  kind: "Kind",
  at: "Happened",
  by: "Done by",
  actingFor: "for ",
  about: "About",
  task: "Task",
  channel: "Channel",
  hash: "Content hash",
  before: "Links to",
  alone: "Recomputed",
  good: "The hash and the columns are those of the text below.",
  checking: "Recomputing…",
  words: "Words",
  payload: "Text that was hashed",
  earlier: "The event before",
  later: "The event after",
};
