// Doing one thing with many tasks: what all of them offer, one after the other, and what came of it.
//
// Promises: a form is asked once for all; each is sent by itself, so that the refusal of one keeps no other
// back, and stands on its own task. Leaves out: which tasks.

import { actionsOn } from "./actions.js";
import { send } from "./act.js";
import { openForm } from "./later.js";
import { acting as say, actionNames, shell } from "./strings/en.js";
import { openDialog } from "./view/dialog.js";
import { button, h, setAttr, setText } from "./view/node.js";

/** @typedef {import("./world.js").World} World */
/** @typedef {import("./actions.js").Action} Action */

/**
 * @param {World} world
 * @param {string[]} ids
 * @param {() => void} done
 */
export function openMany(world, ids, done) {
  const threads = () => ids.flatMap((id) => world.store.get("thread", id) ?? []);
  const list = h("div.stack.tight.menu-list", ...offered(world, threads()).map((action) => choice(action)));
  const told = h("p.told", { hidden: true, role: "status" });
  const dialog = openDialog({
    title: say.many(ids.length),
    closeLabel: shell.close,
    body: [list, told],
    name: "many",
    onClose: done,
  });

  /** @param {Action} action */
  function choice(action) {
    const name = actionNames[action.id] ?? action.id;
    const lacks = world.lacks(action.op);
    let isArmed = false;
    const node = button(
      name,
      () => {
        if (action.confirm && !action.fields?.length && !isArmed) {
          isArmed = true;
          node.classList.add("armed");
          return setText(node, say.armed(name));
        }
        void start(action, name);
      },
      {
        "data-action": action.op,
        "data-of": action.id,
        "aria-disabled": lacks ? "true" : null,
        title: lacks && say.lacks(lacks),
      },
    );
    return node;
  }

  /** @param {Action} action @param {string} name */
  async function start(action, name) {
    if (!action.fields?.length) return run(action, {});
    dialog.close();
    await openForm(world, {
      title: `${name}: ${say.many(ids.length)}`,
      op: action.op,
      only: action.fields,
      isDanger: action.confirm === "form",
      draft: `many/${action.id}`,
      send: async (input) => (await run(action, input), null),
    });
  }

  /** @param {Action} action @param {Record<string, unknown>} input */
  async function run(action, input) {
    for (const node of list.children) setAttr(node, "aria-disabled", "true");
    let [sent, refused] = [0, 0];
    for (const thread of threads()) {
      const write = await send(world, action, thread, input);
      if (write.problem) refused += 1;
      sent += 1;
      told.hidden = false;
      setText(told, say.progress(sent, ids.length, refused));
    }
    if (refused === 0) dialog.close();
  }
}

/** What every one of them offers. @param {World} world @param {any[]} threads */
function offered(world, threads) {
  const [first, ...others] = threads;
  if (!first) return [];
  return actionsOn("thread", first, world).filter((action) =>
    others.every((thread) => action.when(thread, world)),
  );
}
