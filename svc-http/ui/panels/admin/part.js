// What the parts of the administration have in common: what they read, and the buttons of the workspace.
//
// Leaves out: what each part is of.

import { actionOf } from "../../actions.js";
import { actionButton } from "../../act.js";
import { toldBeside } from "../../told.js";
import { h } from "../../view/node.js";

/** @typedef {import("../../world.js").World} World */
/** @typedef {import("../../state/store.js").Changes} Changes */
/**
 * A part that is open. `wants` are the keys of what it shows, which are read and kept up to date.
 *
 * @typedef {{wants: () => string[], show: (changes?: Changes) => void, close?: () => void}} OpenPart
 */
/**
 * @typedef {(place: HTMLElement, world: World, how: {query: () => URLSearchParams, wish: () => void}) => OpenPart} OpenAdminPart
 * `query`: that of the address; `wish`: what the part wants has changed.
 */

/**
 * Buttons for what is done with the workspace, and what came of it.
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
        // What one may not do is shown all the same, and says what it needs.
        node.hidden = world.may(action.op) && !action.when(of, world);
        update();
      }
      beside.show(`workspace/${of.id}`, of);
    },
  };
}
