// Effects of events about messages, boot texts, glossary terms and memory blocks on the store.

import { messageAddress } from "../address.js";
import { lists, patch, stale, staleEach } from "./effect.js";

/** @typedef {import('./effect.js').Case} Case */
/** @typedef {import('./effect.js').Place} Place */
/** @typedef {import('../types.js').Entity} Entity */
/** @typedef {import('../types.js').LogEvent} LogEvent */

const BLANK = { body: "", content: [], metadata: {}, reactions: [], pinned: false, unreadable: false };

/**
 * Kinds of entities that repeat a message's content, with the fields that blank it.
 *
 * @type {Record<string, (known: Entity) => import('../types.js').Fields>}
 */
const SAID = {
  review: ({ findings = [] }) => ({ body: "", findings: findings.map((/** @type {any} */ one) => ({ ...one, body: "" })) }),
  gate: () => ({ question: "" }),
  vote: ({ options = [] }) => ({ question: "", options: options.map((/** @type {any} */ one) => ({ ...one, text: "" })) }),
  inbox: () => ({ preview: null }),
  inbox_all: () => ({ preview: null }),
};

/**
 * Blanks all entities that repeat the content of removed messages.
 *
 * @param {(id: string) => boolean} isMeant Returns whether a message is removed.
 * @returns {import('./effect.js').Effect[]}
 */
const unsaid = (isMeant) => [
  staleEach("relation", ({ from_id, to_id }) => isMeant(from_id) || isMeant(to_id)),
  ...Object.entries(SAID).map(([kind, patch]) => ({ ...staleEach(kind, ({ message_id }) => isMeant(message_id)), patch })),
  {
    ...staleEach("pins", ({ items }) => items.some((/** @type {any} */ { message }) => isMeant(message.id))),
    patch: ({ items }) => ({ items: items.filter((/** @type {any} */ { message }) => !isMeant(message.id)) }),
  },
  // The message may have refuted a message of another thread.
  staleEach("context"),
  ...lists("inbox"),
];

/** @param {Place} place @param {Record<string, Map<string, Entity>>} kinds */
const isFollowed = ({ thread, channel }, { follow }) => Boolean(follow?.has(thread) || follow?.has(channel));

/** @type {Record<string, Case>} */
export const WORDS = {
  MessagePosted: ({ message_id, author_id }, place, { me, kinds }, event) => [
    {
      on: "message",
      id: message_id,
      make: posted(message_id, author_id, place, event),
      stale: !event.message || event.message.withdrawn,
    },
    ...(author_id === me.member_id ? [] : lists("inbox")),
    ...(author_id !== me.member_id && isFollowed(place, kinds) ? lists("follows") : []),
  ],
  MessageEdited: ({ message_id, edit }, { at }, _, event) => [
    {
      ...patch("message", message_id, {
        ...words(event),
        edits: edit,
        edited_at: at,
        content_hash: event.content_hash,
      }),
      stale: !event.message,
    },
    ...lists("inbox"),
  ],
  MessageTombstoned: ({ message_id }) => [
    patch("message", message_id, { ...BLANK, withdrawn: true }),
    patch("reactions", message_id, { items: [] }),
    ...unsaid((id) => id === message_id),
  ],
  MessagePurged: ({ message_id }) => [
    { on: "message", id: message_id, gone: true },
    { on: "reactions", id: message_id, gone: true },
    ...unsaid((id) => id === message_id),
  ],
  MessagesPruned: ({ up_to_lsn }, _, { kinds: { message } }) => [
    // An unknown message may be older, so entities that repeat its content are blanked and read again.
    ...unsaid((id) => !(/** @type {number} */ (message?.get(id)?.lsn) > up_to_lsn)),
    { each: "message", where: (known) => known.lsn <= up_to_lsn, gone: true },
  ],
  MessagePinned: ({ message_id }, { channel }) => [
    patch("message", message_id, { pinned: true }),
    stale("pins", channel),
    staleEach("context", (known) => known.channel_id === channel),
  ],
  MessageUnpinned: ({ message_id }, { channel }) => [
    patch("message", message_id, { pinned: false }),
    stale("pins", channel),
    staleEach("context", (known) => known.channel_id === channel),
  ],
  // Counts are not incremented, because an answer may already include this reaction.
  ReactionAdded: ({ message_id }) => [stale("message", message_id), stale("reactions", message_id)],
  ReactionRemoved: ({ message_id }) => [stale("message", message_id), stale("reactions", message_id)],
  ChannelBootSet: ({ channel_id }) => [stale("boot", channel_id), staleEach("context")],
  GlossaryTermSet: () => lists("glossary"),
  GlossaryTermDeleted: () => lists("glossary"),
  MemoryBlockCreated: ({ block_id, label, read_only, version }, place) => [
    { on: "memory_block", id: block_id, make: block(label, read_only, version, place), stale: true },
    ...lists("memory"),
  ],
  MemoryBlockUpdated: ({ block_id, label, read_only, version }, { at, by }) => [
    { ...patch("memory_block", block_id, { label, read_only, version, updated_at: at, updated_by: by }), stale: true },
    staleEach("context"),
  ],
  MemoryBlockDeleted: ({ block_id }) => [
    { on: "memory_block", id: block_id, gone: true },
    staleEach("context"),
    ...lists("memory"),
  ],
  MemoryBlockAttached: (_, { thread }) => [stale("memory", thread)],
  MemoryBlockDetached: (_, { thread }) => [stale("memory", thread)],
  WorkspacePurged: () => [
    ...["result", "context", "boot", "memory_block", "review", "message"].map((kind) => staleEach(kind)),
    ...lists("glossary", "memory"),
  ],
};

/** Returns whether an event removes the content of messages. @param {LogEvent} event */
export const takesWords = ({ kind }) => /^Message(?:Tombstoned|Purged|sPruned)$/.test(kind);

/**
 * Removes the content of withdrawn, purged or pruned messages from events.
 *
 * @param {Iterable<LogEvent>} events
 * @param {LogEvent} end
 */
export function takeWords(events, end) {
  if (!takesWords(end)) return;
  const { kind, payload } = end;
  const { message_id, up_to_lsn } = payload;
  const isPruned = kind === "MessagesPruned";
  const isWithdrawn = kind === "MessageTombstoned";
  for (const event of events) {
    if (!event.message) continue;
    // The event of an edit does not contain the time of the post, so pruning blanks all edits.
    const isMeant = isPruned
      ? event.lsn <= up_to_lsn || event.kind === "MessageEdited"
      : event.payload.message_id === message_id;
    if (isMeant) event.message = isWithdrawn ? { ...event.message, ...BLANK, withdrawn: true } : null;
  }
}

/**
 * @param {LogEvent} event
 * @returns {import('../types.js').Fields}
 */
function words({ message }) {
  if (!message) return {};
  const { body, content, metadata, unreadable } = message;
  return { body, content, metadata, unreadable };
}

/**
 * @param {string} id
 * @param {string | null} author_id
 * @param {Place} place
 * @param {LogEvent} event
 */
function posted(id, author_id, place, event) {
  const { workspace, channel, thread, at, lsn } = place;
  return {
    ...BLANK,
    ...words(event),
    uri: messageAddress(place, id),
    workspace_id: workspace,
    channel_id: channel,
    thread_id: thread,
    author_id,
    posted_at: at,
    edited_at: null,
    edits: 0,
    withdrawn: false,
    content_hash: event.content_hash,
    lsn,
  };
}

/**
 * @param {string} label
 * @param {boolean} read_only
 * @param {number} version
 * @param {Place} place
 */
function block(label, read_only, version, { workspace, by, at, lsn }) {
  return {
    workspace_id: workspace,
    label,
    description: null,
    value: "",
    limit: 0,
    read_only,
    version,
    created_by: by,
    updated_by: by,
    updated_at: at,
    lsn,
  };
}
