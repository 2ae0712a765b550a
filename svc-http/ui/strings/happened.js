// Sentences for events outside tasks: channels, members, tokens, memory, rules of the workspace.

import { plural } from "./plural.js";

/** @typedef {import("../pure/types.js").Part} Part */
/** @typedef {Record<string, any>} Payload */

/** @param {string} before @returns {(payload: Payload) => Part[]} */
const aChannel = (before) => ({ channel_id }) => [`${before} `, { channel: channel_id }];
/** @param {string} before @returns {(payload: Payload) => Part[]} */
const aMember = (before) => ({ member_id }) => [`${before} `, { member: member_id }];
/** @param {string} before @param {string} field @returns {(payload: Payload) => Part[]} */
const named = (before, field) => (payload) => [`${before} `, { code: String(payload[field]) }];
/** @param {string} text @returns {() => Part[]} */
const plain = (text) => () => [text];

/** @type {Record<string, (payload: Payload) => Part[]>} */
export const happened = {
  AppCreated: named("made the app", "slug"),
  AppInstalled: plain("installed an app"),
  AppUninstalled: plain("uninstalled an app"),
  BallotCast: plain("cast a ballot"),
  ChannelArchived: aChannel("archived the channel"),
  ChannelBootSet: aChannel("set what one reads first in"),
  ChannelCreated: aChannel("made the channel"),
  ChannelMemberAdded: ({ channel_id, member_id }) => ["added ", { member: member_id }, " to ", { channel: channel_id }],
  ChannelMemberRemoved: ({ channel_id, member_id }) => ["removed ", { member: member_id }, " from ", { channel: channel_id }],
  ChannelUnarchived: aChannel("unarchived the channel"),
  ChannelUpdated: aChannel("changed the channel"),
  DelegationGranted: ({ delegate, subject }) => ["let ", { member: delegate }, " act for ", { member: subject }],
  DelegationPolicySet: plain("set how long delegations may last"),
  DelegationRevoked: plain("revoked a delegation"),
  EventsPruned: ({ floor }) => [`pruned the log: it begins at event ${floor} now`],
  GlossaryTermDeleted: named("deleted the term", "key"),
  GlossaryTermSet: named("explained the term", "key"),
  GovernanceSkillConferred: ({ member_id, skill }) => ["conferred the skill ", { code: skill }, " on ", { member: member_id }],
  GovernanceSkillRevoked: ({ member_id, skill }) => ["revoked the skill ", { code: skill }, " of ", { member: member_id }],
  GroupChanged: named("changed the group", "display_name"),
  GroupDeleted: plain("deleted a group"),
  IdentityLinked: aMember("linked an identity to"),
  LegalHoldPlaced: plain("placed a legal hold"),
  LegalHoldReleased: plain("released a legal hold"),
  MemberCreated: aMember("added the member"),
  MemberDeactivated: aMember("deactivated"),
  MemberFrozen: ({ member_id, reason }) => ["froze ", { member: member_id }, ...(reason ? [": ", { code: reason }] : [])],
  MemberReactivated: aMember("reactivated"),
  MemberRemoved: aMember("removed"),
  MemberSkillsChanged: aMember("changed the skills of"),
  MemberUnfrozen: aMember("unfroze"),
  MemberUpdated: aMember("changed the names of"),
  MemoryBlockCreated: named("wrote the memory block", "label"),
  MemoryBlockDeleted: plain("deleted a memory block"),
  MemoryBlockUpdated: ({ label, version }) => ["rewrote the memory block ", { code: label }, `, version ${version}`],
  MessagePosted: plain("posted a message"),
  MessagesPruned: ({ messages }) => [plural(messages, { one: "pruned # message", other: "pruned # messages" })],
  ReactionAdded: ({ emoji }) => ["reacted with ", { code: emoji }],
  ReactionRemoved: ({ emoji }) => ["took back the reaction ", { code: emoji }],
  RepoPaused: ({ repo, reason }) => ["paused the repository ", { code: repo }, ...(reason ? [": ", { code: reason }] : [])],
  RepoResumed: named("resumed the repository", "repo"),
  RetentionPolicySet: plain("set how long things are kept"),
  ShareTicketIssued: plain("issued a share ticket"),
  ShareTicketRevoked: plain("revoked a share ticket"),
  SlotCapacityCleared: named("removed the capacity of the slot", "slot"),
  SlotCapacitySet: ({ slot, capacity }) => ["set the capacity of the slot ", { code: slot }, ` to ${capacity}`],
  SpawnBudgetSet: plain("set what agents may spawn"),
  TokenMinted: aMember("minted a token for"),
  TokenRevoked: aMember("revoked a token of"),
  TokenRotated: aMember("rotated a token of"),
  WorkspaceCreated: plain("made the workspace"),
  WorkspaceErased: plain("erased a workspace"),
  WorkspaceHandleChanged: named("changed the workspace's address to", "handle"),
  WorkspaceImported: plain("imported the workspace"),
  WorkspacePurged: plain("purged words of the workspace"),
  WorkspaceUpdated: named("renamed the workspace to", "name"),
};
