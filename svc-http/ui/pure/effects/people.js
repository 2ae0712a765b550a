// Effects of events about members, channels and their members on the store.

import { lists, patch, stale, staleEach } from "./effect.js";

/** @typedef {import('./effect.js').Case} Case */
/** @typedef {import('./effect.js').Effect} Effect */
/** @typedef {import('./effect.js').Place} Place */
/** @typedef {import('../types.js').Entity} Entity */
/** @typedef {import('../merge.js').World} World */

/** @type {Record<string, Case>} */
export const PEOPLE = {
  MemberCreated: ({ member_id, handle, display_name, kind }, place) => [
    { on: "member", id: member_id, make: member(handle, display_name, kind, place) },
  ],
  MemberUpdated: ({ member_id, handle, display_name }, { at }) => [
    patch("member", member_id, { handle, display_name, changed_at: at }),
    staleEach("channel_members", (known) => has(known, member_id)),
  ],
  MemberDeactivated: ({ member_id }, { at }) => [
    patch("member", member_id, { active: false, changed_at: at }),
    ...lists("tokens", "skills", "occupancy", "deferred"),
  ],
  MemberReactivated: ({ member_id }, { at }) => [
    patch("member", member_id, { active: true, changed_at: at }),
    ...lists("skills", "occupancy", "deferred"),
  ],
  // A removed member has a new handle, which only a read returns.
  MemberRemoved: ({ member_id }) => [stale("member", member_id), staleEach("channel_members")],
  MemberFrozen: ({ member_id }, _, world) => [
    patch("member", member_id, { frozen: true }),
    ...ofMyself(member_id, world),
    ...lists("occupancy", "frozen"),
  ],
  MemberUnfrozen: ({ member_id }, _, world) => [
    patch("member", member_id, { frozen: false }),
    ...ofMyself(member_id, world),
    ...lists("occupancy", "frozen"),
  ],
  MemberSkillsChanged: ({ member_id, added, removed }, _, world) => [
    patch("member", member_id, ({ skills }) => ({ skills: changed(skills, added, removed) })),
    ...ofMyself(member_id, world),
    ...lists("skills", "deferred", "occupancy"),
  ],
  GovernanceSkillConferred: () => [...judged(), ...lists("skills")],
  GovernanceSkillRevoked: () => [...judged(), ...lists("skills")],
  ChannelCreated: (payload, place) => [{ on: "channel", id: payload.channel_id, make: channel(payload, place) }],
  ChannelUpdated: ({ channel_id, name, topic, private: closed }, _, world) => [
    patch("channel", channel_id, { name, topic, private: closed }),
    ...(closed ? [] : into(channel_id, world)),
  ],
  ChannelArchived: ({ channel_id }, { at }) => [
    patch("channel", channel_id, { archived: true, archived_at: at }),
    staleEach("context"),
    ...lists("deferred", "occupancy"),
  ],
  ChannelUnarchived: ({ channel_id }) => [
    patch("channel", channel_id, { archived: false, archived_at: null }),
    staleEach("context"),
    ...lists("deferred", "occupancy"),
  ],
  ChannelMemberAdded: ({ channel_id, member_id }, _, world) => [
    stale("channel_members", channel_id),
    ...(member_id === world.me.member_id
      ? [...lists("channels", "inbox", "deferred", "occupancy"), ...into(channel_id, world)]
      : []),
  ],
  ChannelMemberRemoved: ({ channel_id, member_id }, _, world) => [
    patch("channel_members", channel_id, ({ items }) => ({
      items: items.filter((/** @type {any} */ item) => item.member_id !== member_id),
    })),
    ...(member_id === world.me.member_id ? [...outOf(channel_id, world), ...lists("channels", "inbox")] : []),
  ],
};

/**
 * @param {string} handle
 * @param {string | null} display_name
 * @param {string} kind
 * @param {Place} place
 */
function member(handle, display_name, kind, { workspace, at }) {
  return {
    workspace_id: workspace,
    handle,
    display_name,
    kind,
    active: true,
    frozen: false,
    skills: [],
    created_at: at,
    changed_at: null,
  };
}

/**
 * @param {any} payload
 * @param {Place} place
 */
function channel({ name, topic, private: closed, kind }, { workspace, by, at, lsn }) {
  return {
    workspace_id: workspace,
    name,
    topic,
    private: closed,
    kind,
    archived: false,
    archived_at: null,
    created_by: by,
    created_at: at,
    lsn,
  };
}

/**
 * @param {Entity} known
 * @param {string} member
 */
const has = ({ items }, member) => items.some((/** @type {any} */ item) => item.member_id === member);

/**
 * @param {string[]} skills
 * @param {string[]} added
 * @param {string[]} removed
 */
const changed = (skills, added, removed) =>
  [...new Set([...skills, ...added])].filter((skill) => !removed.includes(skill)).sort();

/**
 * Returns the effects on the user's own capabilities, which depend on the user's state and skills.
 * @param {string} member
 * @param {World} world
 * @returns {Effect[]}
 */
const ofMyself = (member, { me }) => (member === me.member_id ? [staleEach("context"), ...lists("me")] : []);

/** Marks everything as stale that depends on whose review counts. @returns {Effect[]} */
const judged = () => [staleEach("review_status"), staleEach("land_gate"), staleEach("context")];

/** Lists to read again when more becomes visible; `all` covers entities that were not found before. */
const SEEN_ANEW = [
  ...["all", "channels", "inbox", "inbox_all", "deferred", "occupancy", "approvals", "awaited"],
  ...["dead_letters", "dms", "follows", "closings", "unacknowledged", "assigned"],
];

/**
 * Returns the effects of a channel that becomes visible, since no event reports its contents.
 * @param {string} id
 * @param {World} world
 * @returns {Effect[]}
 */
const into = (id, { kinds }) =>
  kinds.channel?.get(id)?.private === false ? [] : lists(...SEEN_ANEW);

/** Kinds of entities that contain the id of their channel. */
const INSIDE = ["thread", "message", "gate", "dead_letter", "deferred", "context"];

/**
 * Returns the effects of leaving a private channel, whose contents are no longer visible.
 * @param {string} id
 * @param {World} world
 * @returns {Effect[]}
 */
const outOf = (id, world) => (world.kinds.channel?.get(id)?.private === false ? [] : insideOf(id, world));

/**
 * Removes a channel and all its contents.
 * @param {string} id
 * @param {World} world
 * @returns {Effect[]}
 */
export function insideOf(id, { kinds }) {
  const ids = ["channel", "channel_members", "pins", "boot"];
  const isInside = (/** @type {Entity} */ known) => known.channel_id === id;
  const isOf = (/** @type {Entity} */ known) => kinds.thread?.get(known.thread_id ?? known.id)?.channel_id === id;
  return [
    ...["review", "vote", "relation", "alarm", "assigned", "closing"].map((each) => ({ each, where: isOf, gone: true })),
    ...INSIDE.map((each) => ({ each, where: isInside, gone: true })),
    ...ids.map((on) => ({ on, id, gone: true })),
  ];
}
