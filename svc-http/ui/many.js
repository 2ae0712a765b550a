// Runs one action on many tasks, one after the other, and reports the outcome.
//
// Guarantees: a form is filled in once for all; each task gets its own request, so a refusal does not stop
// the others and is shown on its own task. Not here: choosing the tasks.

import { actionsOn, isTwice } from "./actions.js";
import { disable, send, showArmed, whyNot } from "./act.js";
import { openForm } from "./later.js";
import { acting as say, actionNames, shell } from "./strings/en.js";
import { openDialog } from "./view/dialog.js";
import { button, h, setAttr, setText } from "./view/node.js";
import { createTwice } from "./view/twice.js";

/** @typedef {import("./world.js").World} World */
/** @typedef {import("./actions.js").Action} Action */

/**
 * @param {World} world
 * @param {string[]} ids
 * @param {() => void} done
 * @param {string} [first] Action to focus if all of the tasks offer it.
 */
export function openMany(world, ids, done, first) {
  const threads = () => ids.flatMap((id) => world.store.get("thread", id) ?? []);
  const list = h("div.stack.tight.menu-list", ...offered(world, threads()).map((action) => choice(action)));
  const told = h("p.told", { hidden: true, role: "status" });
  const dialog = openDialog({
    title: say.many(ids.length),
    closeLabel: shell.close,
    body: [list, told],
    name: "many",
    onClose: () => (unwatch(), done()),
  });
  let isRunning = false;
  /** Availability changes with the connection. */
  const unwatch = world.store.watch(() => {
    if (!isRunning) disableEach((op) => whyNot(world, op));
  });

  /** @param {(op: string) => string | null} why */
  function disableEach(why) {
    for (const node of list.children)
      if (node instanceof HTMLElement) disable(node, why(node.dataset.action ?? ""));
  }

  const wanted = list.querySelector(first ? `[data-of="${CSS.escape(first)}"]` : "button");
  if (wanted instanceof HTMLElement) wanted.focus();
  else if (first) tell(say.cannot(actionNames[first] ?? first, say.notNow));

  /** @param {string} sentence */
  function tell(sentence) {
    told.hidden = false;
    setText(told, sentence);
  }

  /** @param {Action} action */
  function choice(action) {
    const name = actionNames[action.id] ?? action.id;
    const twice = createTwice(isTwice(action), (isArmed) => showArmed(node, name, isArmed));
    const node = button(name, () => void (twice.press() && start(action, name)), {
      "data-action": action.op,
      "data-of": action.id,
    });
    disable(node, whyNot(world, action.op));
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
    isRunning = true;
    disableEach(() => say.asking);
    /** @type {string[]} */
    const refused = [];
    const all = threads();
    for (const [at, thread] of all.entries()) {
      const write = await send(world, action, thread, input);
      if (write.problem) refused.push(thread.id);
      // A screen reader announces only the first and the last step.
      setAttr(told, "aria-live", at === 0 || at + 1 === all.length ? null : "off");
      tell(say.progress(at + 1, all.length, refused.length));
    }
    isRunning = false;
    if (refused.length === 0) return dialog.close();
    // Only the refused tasks remain, so the others are not changed twice.
    ids = refused;
    dialog.setTitle(say.many(ids.length));
    list.replaceChildren(...offered(world, threads()).map((one) => choice(one)));
  }
}

/** Returns the actions that every one of the tasks offers. @param {World} world @param {any[]} threads */
function offered(world, threads) {
  const [first, ...others] = threads;
  if (!first) return [];
  return actionsOn("thread", first, world).filter((action) =>
    others.every((thread) => action.when(thread, world)),
  );
}
