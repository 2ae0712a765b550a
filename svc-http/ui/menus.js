// The menu of an entity: all actions on it, by pointer or by keys.
//
// Guarantees: an action that the session may not use is listed too, with the reason. Not here: opening the
// menu.

import { actionOf, actionsOn } from "./actions.js";
import { actionButton } from "./act.js";
import { acting as say, shell } from "./strings/en.js";
import { openDialog } from "./view/dialog.js";
import { h } from "./view/node.js";
import { toldBeside } from "./told.js";

/**
 * @param {import("./world.js").World} world
 * @param {import("./actions.js").Action["on"]} on
 * @param {string} kind
 * @param {string} id
 * @param {string} title
 */
export function openMenu(world, on, kind, id, title) {
  const list = h("div.stack.tight.menu-list");
  const told = h("div");
  const beside = toldBeside(world, told);
  const entity = () => world.store.get(kind, id);
  const now = entity();
  if (!now) return;
  const buttons = actionsOn(on, now, world).map((action) => actionButton(world, action, entity));
  list.append(...buttons.map(({ node }) => node));
  const dialog = openDialog({
    title: say.actionsOf(title),
    closeLabel: shell.close,
    body: [list, told],
    name: "menu",
    onClose: () => unwatch(),
  });
  // A form replaces the menu; without a form the menu stays open to show the outcome.
  list.addEventListener("click", ({ target }) => {
    const pressed = target instanceof Element ? target.closest("button") : null;
    const action = pressed && actionOf(pressed.dataset.of ?? "");
    if (action?.fields?.length && pressed?.getAttribute("aria-disabled") !== "true") dialog.close();
  });
  list.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const at = buttons.findIndex(({ node }) => node === document.activeElement);
    buttons[(at + step + buttons.length) % buttons.length]?.node.focus();
  });
  const unwatch = world.store.watch(() => {
    for (const { update } of buttons) update();
    beside.show(`${on}/${id}`, entity());
  });
}
