// The table of actions, one row each, from which buttons, menus, keys, the palette and `?` are built.
//
// Guarantees: a row names an operation and does not define how it is sent; an action that cannot be undone
// has no single key, and asks for a reason or a second press. Not here: running an action (act.js) and its
// labels (strings/actions.js).

import { admin } from "./actions/admin.js";
import { channels } from "./actions/channels.js";
import { claims } from "./actions/claims.js";
import { inbox } from "./actions/inbox.js";
import { judgements } from "./actions/judgements.js";
import { members } from "./actions/members.js";
import { memory } from "./actions/memory.js";
import { me } from "./actions/me.js";
import { messages } from "./actions/messages.js";
import { partings, settings, states } from "./actions/thread.js";
import { rules } from "./actions/rules.js";
import { workspace } from "./actions/workspace.js";

/** @typedef {import("./world.js").World} World */
/**
 * @typedef {{
 *   id: string,
 *   op: string,
 *   on: "thread" | "message" | "gate" | "finding" | "dead_letter" | "channel" | "member" | "workspace" |
 *     "dependency" | "reviewer" | "attachment" | "relation" | "vote" | "inbox" | "dm" | "term" | "channel_member" |
 *     "preferences" | "subscription" | "token" | "grant" | "app" | "installation" | "ticket" | "hold" | "slot" | "pause" | "memory_block",
 *   key?: string,
 *   when: (entity: any, world: World) => boolean,
 *   fill: (entity: any, world: World) => Record<string, unknown>,
 *   rightOf?: (entity: any, world: World) => string,
 *   fields?: string[],
 *   now?: (entity: any, world: World) => Record<string, unknown>,
 *   optimistic?: (entity: any, input: any, world: World) => {kind: string, id: string, field: string, value: any}[],
 *   confirm?: "press" | "form",
 *   leaves?: (event: import("./net/outbox.js").LogEvent, input: any) => boolean,
 *   open?: (world: World, entity: any) => void,
 *   hasSecret?: boolean,
 *   asksToken?: boolean,
 *   isMain?: boolean,
 *   isFirst?: boolean,
 * }} Action `fill`: the input that follows from the entity; `rightOf`: the operation whose capability is
 * needed, if that depends on the entity; `fields`: asked for in a form, with the initial values from `now`;
 * `leaves`: whether an event is the result of this action, for when no answer arrived; `open`: asks for the
 * input if no form from the schema does; `isMain`: shown as a button, not only in the menu; `isFirst`: the
 * primary action; `hasSecret`: the answer contains a secret, which is shown once and not stored; `asksToken`:
 * sent with a token that the user types for it.
 */

/** @type {Action[]} */
export const actions = [
  ...claims,
  ...states,
  ...settings,
  ...judgements,
  ...messages,
  ...channels,
  ...inbox,
  ...partings,
  ...rules,
  ...memory,
  ...workspace,
  ...members,
  ...me,
  ...admin,
];

/**
 * Returns whether an action is sent only on the second press, wherever it is pressed.
 *
 * @param {Action} action
 */
export const isTwice = ({ confirm }) => confirm === "press";

/** @param {string} id */
export const actionOf = (id) => actions.find((action) => action.id === id);

/**
 * Returns the actions that an entity offers now.
 *
 * @param {Action["on"]} on
 * @param {any} entity
 * @param {World} world
 */
export const actionsOn = (on, entity, world) =>
  actions.filter((action) => action.on === on && action.when(entity, world));
