// Texts of the audit screen.

import { plural } from "./plural.js";

export const audit = {
  title: "Audit",
  list: "Audit rows, newest first",
  hint: "Who changed what, by which way, and what was refused.",
  filter: "Filter the audit",
  filterHint: "Words or @member",
  action: "Action",
  actionHint: "Any action",
  noSuchMember: (/** @type {string} */ name) => `There is no member “${name}”.`,
  reading: "Reading the audit…",
  unread: "The audit could not be read.",
  tryAgain: "Try again",
  none: "No row fits.",
  looked: (/** @type {number} */ count) =>
    plural(count, { one: "# row was looked through.", other: "# rows were looked through." }),
  begins: "These are all rows.",
  full: "This is as much as is listed; filter to see more.",
  further: "Look further back",
  newest: "Read newer rows",
  hasNewer: "There are newer rows.",
  waits: (/** @type {number} */ count) => plural(count, { one: "# new row", other: "# new rows" }),
  row: (/** @type {number} */ seq) => `Row ${seq}`,
  actingFor: "for ",
  withheld: "withheld: it was in a private channel",
  at: "At",
  by: "By",
  grant: "By the grant",
  facts: "All that is kept of it",
  close: "Close",
};
