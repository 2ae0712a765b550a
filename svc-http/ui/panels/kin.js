// Parent, subtasks and dependencies of a task.
//
// Not here: whether they block a claim or a close, which other panels show.

import { parts as say, states } from "../strings/en.js";
import { actionOf } from "../actions.js";
import { actionBar, actionButton } from "../act.js";
import { h, setChildren } from "../view/node.js";

/**
 * @param {HTMLElement} place
 * @param {import("../world.js").World} world
 * @returns {import("../panels.js").OpenPanel}
 */
export function open(place, world) {
  const parent = h("p");
  const children = h("ul.stack.tight");
  const waits = h("ul.stack.tight");
  const buttons = h("div.row");
  const { store } = world;
  const bar = actionBar(world, "thread", buttons, ({ id }) =>
    ["create_child_thread", "add_thread_dependency"].includes(id),
  );
  place.append(parent, h("h3", say.children), children, h("h3", say.dependencies), waits, buttons);

  /**
   * Buttons that remove a dependency, by the id of the task that it points to.
   *
   * @type {Map<string, ReturnType<typeof actionButton>>}
   */
  const partings = new Map();
  const removal = /** @type {import("../actions.js").Action} */ (actionOf("remove_thread_dependency"));

  /** @param {any} thread @param {any} one */
  function waitRow(thread, one) {
    const id = one.thread_id;
    const entity = { id: `${thread.id} ${id}`, thread_id: thread.id, depends_on_id: id };
    const node = row(id, one.finished ? say.finished : (states[one.state] ?? one.state));
    if (one.finished) return node;
    const part = partings.get(id) ?? actionButton(world, removal, () => entity);
    partings.set(id, part);
    node.append(part.node);
    return node;
  }

  /** @param {string} id @param {string} state */
  const row = (id, state) => h("li.row", h("span.grow", world.names.thread(id)), h("span.chip", state));
  const none = () => h("li.quiet", say.none);

  /** @param {any} thread */
  function childrenOf(thread) {
    const known = store.all("thread").filter(({ parent_id }) => parent_id === thread.id);
    return known.map(({ id, state }) => row(id, states[state] ?? state));
  }

  return {
    show(thread, changes) {
      if (changes && ![...changes.dirty].some((key) => /^(thread|children|dependencies)\//.test(key)))
        return bar.show(thread);
      setChildren(parent, thread.parent_id ? [say.parent, world.names.thread(thread.parent_id)] : []);
      const rows = childrenOf(thread);
      setChildren(children, rows.length ? rows : [none()]);
      const items = store.get("dependencies", thread.id)?.items ?? [];
      const waiting = items.map((/** @type {any} */ one) => waitRow(thread, one));
      setChildren(waits, waiting.length ? waiting : [none()]);
      for (const { update } of partings.values()) update();
      bar.show(thread);
    },
  };
}
