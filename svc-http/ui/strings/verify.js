// Texts of the results of log verification.

import { plural } from "./plural.js";

/** @type {Record<import("../pure/verify.js").Defect, string>} */
export const defects = {
  missing: "the event is missing",
  stray: "an event stands where none can be",
  unreadable: "the event cannot be read",
  columns: "what is shown of the event is not what it was written with",
  type: "the event is of another type than it says",
  content: "the event is not the text that was hashed",
  link: "the event does not link to the one before it",
  time: "the event happened before the one before it",
  floor: "where the log begins is not what was declared",
  head: "the log does not end as the server says",
};

/** @param {number} withheld */
const hidden = (withheld) => plural(withheld, { one: "# event is withheld from you", other: "# events are withheld from you" });
/** @param {number} checked */
const proved = (checked) => plural(checked, { one: "# event is", other: "# events are" });

/**
 * @typedef {object} Found
 * @property {number} checked
 * @property {number} withheld
 * @property {number} upTo
 * @property {number} head
 * @property {{lsn: number, defect: import("../pure/verify.js").Defect} | null} [broken]
 */

/** @type {Record<"none" | "running" | "whole" | "part" | "broken" | "failed", (found: Found) => string>} */
export const verified = {
  none: () => "The log is not verified yet.",
  running: ({ upTo, head }) => (head ? `Verifying: event ${upTo} of ${head}.` : "Verifying…"),
  whole: ({ checked }) => `The log is whole: ${proved(checked)} as they were written, up to the head.`,
  part: ({ checked, withheld }) => `${proved(checked)} as they were written; ${hidden(withheld)}, and their links stay open.`,
  broken: ({ broken }) => `The log is broken at event ${broken?.lsn}: ${broken ? defects[broken.defect] : ""}.`,
  failed: () => "The log could not be read to its end, so nothing is proved.",
};

/** @type {Record<import("../pure/verify.js").PinState, (lsn: number) => string>} */
export const pinned = {
  new: () => "This browser remembers no head of this log yet.",
  same: (lsn) => `It contains event ${lsn}, the head that this browser proved before.`,
  rewritten: (lsn) => `History was rewritten: event ${lsn} is not the one that this browser proved before.`,
  "rolled-back": (lsn) => `The log was rolled back: it ends before event ${lsn}, which this browser proved before.`,
  pruned: (lsn) => `Event ${lsn}, which this browser proved before, was pruned: it cannot be told any more.`,
  withheld: (lsn) => `Event ${lsn}, which this browser proved before, is withheld: it cannot be told.`,
};
