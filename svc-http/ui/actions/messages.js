// Actions on a message: pinning, editing, withdrawing, reacting, linking.
//
// Not here: writing a message (panels/composer.js).

import { openBacklinks } from "../later.js";

/** @typedef {import("../actions.js").Action} Action */

/**
 * @param {string} kind
 * @param {string} [field]
 * @returns {Action["leaves"]}
 */
const leavesOf =
  (kind, field = "message_id") =>
  (event, input) =>
    event.kind === kind && event.payload[field] === input.message_id;

/** @param {any} message @param {import("../actions.js").World} world */
const isMine = (message, world) => message.author_id === world.me.member_id && !message.withdrawn;

/**
 * Returns the reactions with one more, or one less.
 *
 * @param {{emoji: string, count: number}[] | undefined} reactions
 * @param {string} emoji
 * @param {1 | -1} step
 */
function counted(reactions = [], emoji, step) {
  const has = reactions.some((one) => one.emoji === emoji);
  const all = has ? reactions : [...reactions, { emoji, count: 0 }];
  return all
    .map((one) => (one.emoji === emoji ? { ...one, count: one.count + step } : one))
    .filter(({ count }) => count > 0);
}

/** @type {Action[]} */
export const messages = [
  {
    id: "pin_message",
    op: "pin_message",
    on: "message",
    when: (message) => !message.pinned && !message.withdrawn,
    fill: (message) => ({ message_id: message.id }),
    leaves: leavesOf("MessagePinned"),
  },
  {
    id: "unpin_message",
    op: "unpin_message",
    on: "message",
    when: (message) => message.pinned,
    fill: (message) => ({ message_id: message.id }),
    leaves: leavesOf("MessageUnpinned"),
  },
  {
    id: "edit_message",
    op: "edit_message",
    on: "message",
    when: isMine,
    fill: (message) => ({ message_id: message.id }),
    fields: ["body"],
    now: (message) => ({ body: message.body }),
    leaves: leavesOf("MessageEdited"),
  },
  {
    id: "add_reaction",
    op: "add_reaction",
    on: "message",
    when: (message) => !message.withdrawn,
    fill: (message) => ({ message_id: message.id }),
    fields: ["emoji"],
    optimistic: ({ id }, { emoji }) => [
      {
        kind: "message",
        id,
        field: "reactions",
        value: (/** @type {any} */ base) => counted(base, emoji, 1),
      },
    ],
    leaves: leavesOf("ReactionAdded"),
  },
  {
    id: "remove_reaction",
    op: "remove_reaction",
    on: "message",
    when: (message) => message.reactions?.length > 0,
    fill: (message) => ({ message_id: message.id }),
    fields: ["emoji"],
    optimistic: ({ id }, { emoji }) => [
      {
        kind: "message",
        id,
        field: "reactions",
        value: (/** @type {any} */ base) => counted(base, emoji, -1),
      },
    ],
    leaves: leavesOf("ReactionRemoved"),
  },
  {
    id: "relate_message",
    op: "relate_message",
    on: "message",
    when: isMine,
    fill: (message) => ({ message_id: message.id }),
    fields: ["kind", "target_message_id"],
    leaves: leavesOf("MessageRelated", "from_id"),
  },
  {
    id: "list_message_backlinks",
    op: "list_message_backlinks",
    on: "message",
    when: () => true,
    fill: (message) => ({ message_id: message.id }),
    open: (world, { id }) => void openBacklinks(world, id),
  },
  {
    id: "remove_relation",
    op: "remove_relation",
    on: "relation",
    isMain: true,
    confirm: "press",
    when: ({ derived, made_by }, world) => !derived && made_by === world.me.member_id,
    fill: ({ id }) => ({ relation_id: id }),
    leaves: (event, input) =>
      event.kind === "RelationRemoved" && event.payload.relation_id === input.relation_id,
  },
  {
    id: "delete_message",
    op: "delete_message",
    on: "message",
    confirm: "press",
    when: (message) => !message.withdrawn,
    // Withdrawing another member's message needs the capability to archive a channel.
    rightOf: ({ author_id }, { me }) => (author_id === me.member_id ? "delete_message" : "archive_channel"),
    fill: (message) => ({ message_id: message.id }),
    leaves: leavesOf("MessageTombstoned"),
  },
];
