// Effects of events about the workspace and its administration on the store: mostly lists to read again.

import { lists, patch, stale } from "./effect.js";

/** @typedef {import('./effect.js').Case} Case */

/** @type {Record<string, Case>} */
export const WORKSPACE = {
  WorkspaceCreated: () => [],
  WorkspaceUpdated: ({ name }, { workspace }) => [patch("workspace", workspace, { name })],
  WorkspaceHandleChanged: ({ handle }, { workspace }) => [patch("workspace", workspace, { handle })],
  WorkspaceImported: () => [],
  WorkspaceErased: ({ workspace_id }) => [{ on: "workspace", id: workspace_id, gone: true }],
  EventsPruned: (_, { workspace }) => [stale("workspace", workspace), ...lists("log", "retention")],
  TokenMinted: () => lists("tokens"),
  TokenRevoked: ({ member_id }, _, { me }) => lists("tokens", ...(member_id === me.member_id ? ["me"] : [])),
  TokenRotated: () => lists("tokens"),
  DelegationGranted: () => lists("grants"),
  DelegationRevoked: () => lists("grants", "tokens"),
  DelegationPolicySet: () => lists("delegation"),
  AppCreated: () => lists("apps"),
  AppInstalled: () => lists("apps", "installations"),
  AppUninstalled: () => lists("apps", "installations", "tokens"),
  IdentityLinked: () => [],
  GroupChanged: () => lists("groups"),
  GroupDeleted: () => lists("groups"),
  LegalHoldPlaced: () => lists("holds"),
  LegalHoldReleased: () => lists("holds"),
  RetentionPolicySet: () => lists("retention"),
  ShareTicketIssued: () => lists("tickets"),
  ShareTicketRevoked: () => lists("tickets"),
};
