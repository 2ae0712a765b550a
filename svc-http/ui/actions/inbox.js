// Actions on inbox items: read marks.
//
// Not here: actions on the entity that an item is about.

/** @typedef {import("../actions.js").Action} Action */

/** @type {Action[]} */
export const inbox = [
  {
    id: "mark_inbox_read",
    op: "mark_inbox_read",
    on: "inbox",
    key: "e",
    isMain: true,
    when: ({ read }) => !read,
    fill: ({ lsn }) => ({ lsns: [lsn] }),
    optimistic: (_, { lsns = [] }) =>
      lsns.flatMap((/** @type {number} */ lsn) =>
        ["inbox", "inbox_all"].map((kind) => ({ kind, id: String(lsn), field: "read", value: true })),
      ),
  },
];
