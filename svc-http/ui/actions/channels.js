// Actions on channels, their members, direct messages, and the glossary of the workspace.
//
// Not here: messages (messages.js) and tasks.

import { openNewDm } from "../later.js";
import { following } from "./rows.js";

/** @typedef {import("../actions.js").Action} Action */
/** @typedef {import("../actions.js").World} World */

/** @param {string} kind @returns {Action["leaves"]} */
const ofChannel = (kind) => (event, input) =>
  event.kind === kind && event.payload.channel_id === input.channel_id;

/** @param {any} channel */
const isOpen = ({ kind, archived }) => kind !== "dm" && !archived;

/**
 * @param {string} op
 * @param {string[]} fields
 * @param {string} kind
 * @param {Partial<Action>} [more]
 * @returns {Action}
 */
const setting = (op, fields, kind, more = {}) => ({
  id: op,
  op,
  on: "channel",
  when: isOpen,
  fill: ({ id }) => ({ channel_id: id }),
  fields,
  leaves: ofChannel(kind),
  ...more,
});

/** @type {Action[]} */
const ofChannels = [
  setting("update_channel", ["name", "topic", "private"], "ChannelUpdated", {
    now: ({ name, topic, private: closed }) => ({ name, topic, private: closed }),
  }),
  setting("set_channel_boot", ["text"], "ChannelBootSet", {
    now: ({ id }, { store }) => ({ text: store.get("boot", id)?.text ?? "" }),
  }),
  setting("add_channel_member", ["member_id"], "ChannelMemberAdded"),
  setting("leave_channel", [], "ChannelMemberRemoved", {
    op: "remove_channel_member",
    confirm: "press",
    when: (channel, world) => isOpen(channel) && isInside(channel, world),
    fill: ({ id }, { me }) => ({ channel_id: id, member_id: me.member_id }),
  }),
  { ...following("follow_channel", "channel", true), isMain: true },
  { ...following("unfollow_channel", "channel", false), isMain: true },
  setting("mark_channel_read", [], "", {
    op: "mark_inbox_read",
    isMain: true,
    when: ({ id }, { store }) => store.get("follow", id)?.unread > 0,
    fill: ({ id }) => ({ target_id: id }),
    leaves: undefined,
  }),
  setting("archive_channel", [], "ChannelArchived", { confirm: "press" }),
  setting("unarchive_channel", [], "ChannelUnarchived", { when: ({ archived }) => archived }),
  {
    id: "remove_channel_member",
    op: "remove_channel_member",
    on: "channel_member",
    isMain: true,
    confirm: "press",
    when: ({ member_id }, { me }) => member_id !== me.member_id,
    fill: ({ channel_id, member_id }) => ({ channel_id, member_id }),
    leaves: (event, input) =>
      event.kind === "ChannelMemberRemoved" && event.payload.member_id === input.member_id,
  },
];

/** @param {{id: string}} channel @param {World} world */
function isInside({ id }, { store, me }) {
  const members = store.get("channel_members", id)?.items ?? [];
  return members.some((/** @type {any} */ one) => one.member_id === me.member_id);
}

/** @param {any} event @param {any} input */
const sameTerm = ({ payload }, { term }) => payload.key === term.trim().toLowerCase();

/** @type {Action[]} */
const ofWords = [
  {
    id: "set_glossary_term",
    op: "set_glossary_term",
    on: "workspace",
    when: () => true,
    fill: () => ({}),
    fields: ["term", "definition"],
    leaves: (event, input) => event.kind === "GlossaryTermSet" && sameTerm(event, input),
  },
  {
    id: "change_glossary_term",
    op: "set_glossary_term",
    on: "term",
    isMain: true,
    when: () => true,
    fill: ({ term }) => ({ term }),
    fields: ["definition"],
    now: ({ definition }) => ({ definition }),
    leaves: (event, input) => event.kind === "GlossaryTermSet" && sameTerm(event, input),
  },
  {
    id: "delete_glossary_term",
    op: "delete_glossary_term",
    on: "term",
    isMain: true,
    confirm: "press",
    when: () => true,
    fill: ({ term }) => ({ term }),
    leaves: (event, input) => event.kind === "GlossaryTermDeleted" && sameTerm(event, input),
  },
];

/** Returns whether a direct message is a group; one for two members stays so. @param {any} dm */
const isGroup = ({ participants }) => participants.length > 2;

/** @type {Action[]} */
const ofDms = [
  {
    id: "open_dm",
    op: "open_dm",
    on: "workspace",
    when: () => true,
    fill: () => ({}),
    open: (world) => void openNewDm(world),
  },
  {
    id: "add_dm_participant",
    op: "add_dm_participant",
    on: "dm",
    isMain: true,
    when: isGroup,
    fill: ({ id }) => ({ channel_id: id }),
    fields: ["member_id"],
    leaves: ofChannel("ChannelMemberAdded"),
  },
  {
    id: "leave_dm",
    op: "leave_dm",
    on: "dm",
    isMain: true,
    confirm: "press",
    when: isGroup,
    fill: ({ id }) => ({ channel_id: id }),
    leaves: ofChannel("ChannelMemberRemoved"),
  },
  {
    id: "create_channel",
    op: "create_channel",
    on: "workspace",
    when: () => true,
    fill: () => ({}),
    fields: ["name", "topic", "private"],
    leaves: (event, input) => event.kind === "ChannelCreated" && event.payload.name === input.name,
  },
];

/** @type {Action[]} */
export const channels = [...ofChannels, ...ofWords, ...ofDms];
