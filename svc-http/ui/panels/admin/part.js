// Types and buttons that the sections of the administration share.
//
// Not here: the content of the sections.

import { actionOf } from "../../actions.js";
import { actionButton } from "../../act.js";
import { toldBeside } from "../../told.js";
import { h } from "../../view/node.js";

/** @typedef {import("../../world.js").World} World */
/** @typedef {import("../../state/store.js").Changes} Changes */
/**
 * An open section. `wants` returns the keys of the shown entities, which are kept up to date.
 *
 * @typedef {{wants: () => string[], show: (changes?: Changes) => void, close?: () => void}} OpenPart
 */
/**
 * @typedef {(place: HTMLElement, world: World, how: {query: () => URLSearchParams, wish: () => void}) => OpenPart} OpenAdminPart
 * `query` returns the query of the address; call `wish` when the result of `wants` has changed.
 */

/**
 * Creates buttons for actions on the workspace, and a place for their outcomes.
 *
 * @param {World} world
 * @param {...string} ids
 */
export function workspaceBar(world, ...ids) {
  const of = { id: world.me.workspace_id };
  const told = h("div");
  const beside = toldBeside(world, told);
  const buttons = ids.flatMap((id) => {
    const action = actionOf(id);
    return action ? [{ action, ...actionButton(world, action, () => of) }] : [];
  });
  return {
    nodes: [h("div.row", ...buttons.map(({ node }) => node)), told],
    show() {
      for (const { action, node, update } of buttons) {
        // A button that the session may not use is shown disabled, and names the missing capability.
        node.hidden = world.may(action.op) && !action.when(of, world);
        update();
      }
      beside.show(`workspace/${of.id}`, of);
    },
  };
}
