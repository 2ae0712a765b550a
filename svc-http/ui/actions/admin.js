// Actions of the workspace's administration: tokens, grants, apps, share tickets and retention.
//
// Guarantees: a setting that is replaced as a whole is offered only once its current value is known, so that
// nothing is cleared by mistake. Not here: members (members.js).

import { ONE } from "../state/entities.js";
import { openAgentMaker } from "../later.js";
import { leaves } from "./rows.js";

/** @typedef {import("../actions.js").Action} Action */
/** @typedef {import("../actions.js").World} World */

/**
 * @param {string} op
 * @param {string[]} fields
 * @param {Partial<Action>} [more]
 * @returns {Action}
 */
const ofWorkspace = (op, fields, more = {}) => ({
  id: op,
  op,
  on: "workspace",
  when: () => true,
  fill: () => ({}),
  fields,
  ...more,
});

/**
 * Builds an action that replaces a setting of the workspace as a whole.
 *
 * @param {string} op
 * @param {string} kind
 * @param {string[]} fields
 * @param {string} event
 * @param {(known: any) => any} [values]
 */
const whole = (op, kind, fields, event, values = (known) => known) =>
  ofWorkspace(op, fields, {
    when: (_, { store }) => store.get(kind, ONE) !== undefined,
    now: (_, { store }) => {
      const known = values(store.get(kind, ONE));
      return Object.fromEntries(fields.map((name) => [name, known[name]]));
    },
    leaves: leaves(event),
  });

/**
 * Builds an action that ends something and cannot be undone.
 *
 * @param {string} op
 * @param {Action["on"]} on
 * @param {string} field
 * @param {string} event
 * @param {string} [ended] Field with the time at which it ended.
 * @returns {Action}
 */
const ending = (op, on, field, event, ended = "revoked_at") => ({
  id: op,
  op,
  on,
  confirm: "press",
  isMain: true,
  when: (one) => !one[ended],
  fill: ({ id }) => ({ [field]: id }),
  leaves: leaves(event, (payload, input) => payload[field] === input[field]),
});

/** @param {any} one @param {World} world */
const isOver = ({ revoked_at, expires_at }, world) =>
  Boolean(revoked_at) || (expires_at !== null && Date.parse(expires_at) <= world.now());

/** @type {Action[]} */
const tokens = [
  ofWorkspace("attenuate_token", ["capabilities", "label", "expires_in_secs", "quotas"], {
    hasSecret: true,
    asksToken: true,
    leaves: leaves("TokenMinted"),
  }),
  {
    id: "rotate_token",
    op: "rotate_token",
    on: "token",
    confirm: "press",
    isMain: true,
    hasSecret: true,
    when: (token, world) => !isOver(token, world) && !token.delegation_grant_id,
    fill: ({ id }) => ({ token_id: id }),
    leaves: leaves("TokenRotated", (payload, input) => payload.token_id === input.token_id),
  },
  ending("revoke_token", "token", "token_id", "TokenRevoked"),
  {
    ...ending("revoke_token", "token", "token_id", "TokenRevoked"),
    id: "revoke_with_claims",
    isMain: false,
    fill: ({ id }) => ({ token_id: id, claims: "release" }),
  },
];

/** @type {Action[]} */
const grants = [
  ofWorkspace(
    "create_delegation_grant",
    ["subject", "delegate", "capabilities", "purpose", "expires_in_secs"],
    { leaves: leaves("DelegationGranted", (payload, input) => payload.purpose === input.purpose) },
  ),
  {
    id: "delegate_token",
    op: "delegate_token",
    on: "grant",
    isMain: true,
    hasSecret: true,
    asksToken: true,
    when: (grant, world) => grant.delegate === world.me.member_id && !isOver(grant, world),
    fill: ({ id }) => ({ grant_id: id }),
    fields: ["capabilities", "expires_in_secs", "label"],
    leaves: leaves("TokenMinted"),
  },
  ending("revoke_delegation_grant", "grant", "grant_id", "DelegationRevoked"),
  whole("set_delegation_policy", "delegation", ["ceiling_days"], "DelegationPolicySet"),
];

/** @type {Action[]} */
const apps = [
  ofWorkspace("create_app", ["slug", "name"], { leaves: leaves("AppCreated") }),
  {
    id: "install_app",
    op: "install_app",
    on: "app",
    isMain: true,
    hasSecret: true,
    when: ({ id }, { store }) =>
      !store.all("installation").some(({ app_id, revoked_at }) => app_id === id && !revoked_at),
    fill: ({ id }) => ({ app_id: id }),
    fields: ["granted_capabilities"],
    leaves: leaves("AppInstalled", (payload, input) => payload.app_id === input.app_id),
  },
  {
    id: "mint_app_token",
    op: "mint_app_token",
    on: "installation",
    isMain: true,
    hasSecret: true,
    when: ({ revoked_at }) => !revoked_at,
    fill: ({ id }) => ({ installation_id: id }),
    fields: ["label", "capabilities", "quotas"],
    leaves: leaves("TokenMinted"),
  },
  ending("revoke_app_installation", "installation", "installation_id", "AppUninstalled"),
];

const KEPT = ["messages_days", "events_days", "deliveries_days", "media_days", "media_quota_bytes"];

/** @type {Action[]} */
export const admin = [
  ofWorkspace("create_agent", [], { open: (world) => void openAgentMaker(world) }),
  ...tokens,
  ...grants,
  ...apps,
  ofWorkspace("create_share_ticket", ["channel_id", "expires_in_secs", "artifact_shas"], {
    hasSecret: true,
    now: () => ({ expires_in_secs: 86_400 }),
    leaves: leaves("ShareTicketIssued"),
  }),
  ending("revoke_share_ticket", "ticket", "ticket_id", "ShareTicketRevoked"),
  whole("set_retention_policy", "retention", KEPT, "RetentionPolicySet", ({ workspace }) => workspace),
  ofWorkspace("place_legal_hold", ["reason"], { confirm: "form", leaves: leaves("LegalHoldPlaced") }),
  ending("release_legal_hold", "hold", "hold_id", "LegalHoldReleased", "released_at"),
  whole("set_spawn_budget", "spawn_budget", ["max_depth", "max_children", "max_tools"], "SpawnBudgetSet"),
  ofWorkspace("update_workspace", ["name"], {
    now: ({ id }, { store }) => ({ name: store.get("workspace", id)?.name }),
    leaves: leaves("WorkspaceUpdated"),
  }),
  ofWorkspace("set_workspace_handle", ["handle"], {
    now: ({ id }, { store }) => ({ handle: store.get("workspace", id)?.handle }),
    leaves: leaves("WorkspaceHandleChanged"),
  }),
];
