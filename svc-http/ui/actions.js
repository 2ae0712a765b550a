// What can be done, a row each: buttons, menus, keys, the palette and `?` follow from here.
//
// Promises: a row names an operation and nothing of how it is sent; what cannot be undone has no single key
// and asks for a reason or a second press. Leaves out: how a row is carried out (act.js), and its words
// (strings/actions.js).

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
 * }} Action `fill` is the part of the input that the thing decides; `rightOf`: the operation whose
 * capability it takes, where the thing decides that; `fields` are asked for in a form, which begins
 * with what `now` says; `leaves`: whether an event is what it would have left, for when no answer came;
 * `open`: what asks for its input, if no form made of the schema does; `isMain`: it stands as a button, not only in the menu; `isFirst`: it is what one mostly wants;
 * `hasSecret`: its answer has a secret, which is shown once and not kept; `asksToken`: it is done with a token
 * that is typed for it.
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

/** Whether an action counts only at the second press, wherever it is pressed. @param {Action} action */
export const isTwice = ({ confirm }) => confirm === "press";

/** @param {string} id */
export const actionOf = (id) => actions.find((action) => action.id === id);

/**
 * The actions that a thing offers now.
 *
 * @param {Action["on"]} on
 * @param {any} entity
 * @param {World} world
 */
export const actionsOn = (on, entity, world) =>
  actions.filter((action) => action.on === on && action.when(entity, world));
