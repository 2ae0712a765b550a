// Sentences of memory blocks: their texts, their versions, and two texts that meet.

import { plural } from "./plural.js";

export const memory = {
  title: "Memory",
  list: "Memory blocks",
  hint: "Texts that every member may read, and that tasks carry along.",
  reading: "Reading the memory blocks…",
  none: "There are no memory blocks.",
  choose: "Choose a block to read it.",
  missing: "There is no such block (any more).",
  back: "All blocks",
  waits: (/** @type {number} */ count) => (count > 0 ? plural(count, { one: "# new", other: "# new" }) : "Changed"),
  more: (/** @type {number} */ count) => plural(count, { one: "Show # more", other: "Show # more" }),
  version: (/** @type {number} */ version) => `version ${version}`,
  readOnly: "read only",
  readOnlyHint: "It is read only: its creator and administrators of channels may change it.",
  changed: (/** @type {string} */ when) => `changed ${when} by `,
  text: "Text",
  size: (/** @type {string} */ size, /** @type {string} */ limit) => `${size} of ${limit} characters`,
  tooLong: "It is longer than the block may be.",
  save: "Save",
  saveOver: (/** @type {number} */ version) => `Save mine over version ${version}`,
  takeBack: "Take my changes back",
  takeTheirs: "Take theirs",
  meets: (/** @type {number} */ mine, /** @type {number} */ theirs) =>
    ` has changed it since you read it: yours begins from version ${mine}, and it is at version ${theirs}.`,
  theirs: (/** @type {number} */ version) => `Theirs, version ${version}`,
  mine: "Yours, not saved",
  marked: "Lines that differ are marked.",
  versions: "Versions",
  versionsHint: "The service keeps the present text alone; the log has who changed it, and when.",
  characters: (/** @type {number} */ count) => plural(count, { one: "# character", other: "# characters" }),
  created: "created",
  readingVersions: "Reading the log…",
  unread: "The log could not be read.",
  further: "Look further back",
};
