// Claim with its footprint and the tasks that wait for it.
//
// Not here: the list of claims (pure/conflicts.js).

import { conflicts as say } from "../strings/en.js";
import { leaseOf } from "../cards.js";
import { openMenu } from "../later.js";
import { button, h, setAttr, setChildren, setText, show } from "../view/node.js";

/** @typedef {import("../world.js").World} World */
/** @typedef {import("../pure/conflicts.js").Held} Held */

/** Maximum number of waiting tasks that are named. */
const NAMED = 20;
/** @type {WeakMap<HTMLElement, (held: Held, isLeaving: boolean) => void>} */
const updates = new WeakMap();

/** @param {World} world @param {Held} first */
export function makeHeld(world, first) {
  let now = first;
  const { names, store } = world;
  const title = h("strong.grow");
  const menu = button("⋯", () => openMenuOf(world, now.thread), { class: "plain" });
  const holder = h("span");
  const left = h("span.left");
  const mode = h("span.chip");
  const touches = h("p.mono.small");
  const count = h("p.small");
  const list = h("ul.stack.tight.behind");
  const node = h(
    "li.holder.stack.tight",
    h("div.row.holder-head", title, menu),
    h("p.row", h("span", say.heldBy, holder), left, mode),
    touches,
    count,
    list,
  );
  let drawn = "";

  updates.set(node, (held, isLeaving) => {
    now = held;
    const thread = store.get("thread", held.thread);
    setAttr(node, "data-thread", held.thread);
    setAttr(node, "data-leaving", isLeaving);
    const lease = leaseOf(world, thread ?? ofHidden(held));
    setText(left, lease?.text);
    setAttr(left, "data-left", lease?.state);
    const state = stateOf(world, held);
    if (state === drawn) return;
    drawn = state;
    const footprint = thread?.footprint;
    setChildren(title, [held.thread ? names.thread(held.thread) : say.hidden]);
    show(menu, thread !== undefined);
    setAttr(menu, "aria-label", say.menu(held.thread ? names.threadText(held.thread) : ""));
    setChildren(holder, [names.member(held.holder)]);
    setText(mode, footprint?.mode === "shared" ? say.shared : say.alone);
    show(mode, footprint !== undefined);
    setChildren(touches, [h("bdi", touchesOf(held, footprint))]);
    setText(count, held.behind.length ? say.behind(held.behind.length) : say.nobody);
    count.classList.toggle("quiet", held.behind.length === 0);
    setChildren(list, behind(world, held));
  });
  return node;
}

/** @param {HTMLElement} node @param {Held} held @param {boolean} isLeaving */
export function updateHeld(node, held, isLeaving) {
  updates.get(node)?.(held, isLeaving);
}

/** @param {World} world @param {string | null} thread */
function openMenuOf(world, thread) {
  if (thread) void openMenu(world, "thread", "thread", thread, world.names.threadText(thread));
}

/**
 * Returns a substitute for the task of a claim that the user cannot see, with its lease.
 *
 * @param {Held} held
 */
function ofHidden({ key, holder, until }) {
  const end = until === null ? null : new Date(until).toISOString();
  return { id: key, claim_lease_id: key, assignee_id: holder, assignment_expires_at: end, state: "open" };
}

/** @param {Held} held @param {any} footprint */
function touchesOf({ repo, behind }, footprint) {
  const items = footprint
    ? footprint.items.map((/** @type {any} */ { value }) => value)
    : [...new Set(behind.flatMap((one) => one.items))];
  return [repo, ...items].filter(Boolean).join(" ");
}

/**
 * Returns a key of all the data that a row shows, so that it is redrawn only after a change.
 *
 * @param {World} world
 * @param {Held} held
 */
function stateOf({ store }, { thread, holder, behind }) {
  const title = (/** @type {string | null} */ id) => store.get("thread", id)?.title;
  const footprint = store.get("thread", thread)?.footprint;
  const waits = behind.map(({ id, items }) => `${id} ${title(id)} ${items.join()}`);
  return [title(thread), JSON.stringify(footprint), store.get("member", holder)?.display_name, ...waits].join(
    "\n",
  );
}

/** @param {World} world @param {Held} held */
function behind(world, held) {
  const rows = held.behind.slice(0, NAMED).map(({ id, items }) =>
    h(
      "li.row",
      { "data-waits": id },
      h("span", world.names.thread(id)),
      items.length ? h("span.quiet.small", say.forItems, h("bdi.mono", items.join(" "))) : null,
      button("⋯", () => openMenuOf(world, id), {
        class: "plain",
        "aria-label": say.menu(world.names.threadText(id)),
      }),
    ),
  );
  const rest = held.behind.length - rows.length;
  return rest > 0 ? [...rows, h("li.quiet.small", say.more(rest))] : rows;
}
