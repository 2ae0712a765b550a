// Memory: the blocks of text that can be attached to tasks, and the selected block.
//
// Guarantees: the selected block is part of the address; nothing moves under the user. Not here: reading and
// editing a block (panels/block.js).

import { ms } from "../pure/clock.js";
import { number, relative } from "../pure/format.js";
import { memory as say } from "../strings/en.js";
import { actionOf } from "../actions.js";
import { actionButton } from "../act.js";
import { hrefTo } from "../names.js";
import { openBlock } from "../panels/block.js";
import { progressOf, showProgress } from "../reading.js";
import { toldBeside } from "../told.js";
import { createHeld } from "../view/held.js";
import { h, setAttr, setChildren, show, words } from "../view/node.js";
import { moveKeys } from "./list-keys.js";

/** @typedef {import("../world.js").World} World */

const LIST = ["list/memory"];
const SHOWN = 100;

/**
 * @param {HTMLElement} root
 * @param {World} world
 * @param {import("../router.js").Place} place
 * @returns {import("../screens.js").Open}
 */
export function open(root, world, place) {
  const { store } = world;
  const wish = world.reads.wish();
  const workspace = { id: world.me.workspace_id };
  let chosen = "";
  const create = actionButton(
    world,
    /** @type {import("../actions.js").Action} */ (actionOf("create_memory_block")),
    () => workspace,
  );
  const receipts = h("div");
  const beside = toldBeside(world, receipts);
  const told = h("p.quiet", { hidden: true });
  const list = createHeld({
    label: say.list,
    waits: say.waits,
    earlier: say.more,
    most: SHOWN,
    key: (/** @type {any} */ { id }) => id,
    make: () => h("li", h("a.block-link.stack.tight")),
    update: drawRow,
  });
  const side = h("div.stack");
  root.classList.add("stack", "memory");
  root.append(
    h("div.row", h("h1", say.title), h("span.end", create.node)),
    h("p.quiet.small", say.hint),
    receipts,
    told,
    h("div.memory-body", h("div.stack", list.root), side),
  );
  /** @type {ReturnType<typeof openBlock> | null} */
  let block = null;

  /** @type {WeakMap<HTMLElement, string>} */
  const drawn = new WeakMap();
  /** @param {HTMLElement} node @param {any} row */
  function drawRow({ firstElementChild: node }, row) {
    if (!(node instanceof HTMLElement)) return;
    setAttr(node, "href", hrefTo("memory", {}, `?${new URLSearchParams({ block: row.id })}`));
    setAttr(node, "aria-current", row.id === chosen ? "true" : null);
    setAttr(node, "data-block-id", row.id);
    const at = ms(row.updated_at);
    const when = at === null ? "" : relative(at, world.now());
    const by = world.names.memberText(row.updated_by ?? row.created_by);
    const state = [row.label, row.version, row.read_only, row.value?.length, when, by].join("\n");
    if (drawn.get(node) === state) return;
    drawn.set(node, state);
    setChildren(node, [
      h("strong.one-line", words(row.label)),
      h(
        "span.row.small.quiet",
        say.version(row.version),
        row.read_only ? h("span.chip", say.readOnly) : null,
        row.value === undefined
          ? null
          : h("span", say.size(number([...row.value].length), number(row.limit ?? 0))),
      ),
      h("span.small.quiet", say.changed(when), words(by)),
    ]);
  }

  /** @param {string} id */
  function choose(id) {
    chosen = id;
    wish.set([...LIST, ...(id ? [`memory_block/${id}`] : [])]);
    if (block?.id === id) return;
    block?.close();
    block = id ? openBlock(world, id) : null;
    setAttr(root, "data-chosen", id ? true : null);
    setChildren(side, [...(block ? [back(), block.root] : [h("p.quiet", say.choose)])]);
  }

  /** On a narrow screen the block replaces the list. */
  const back = () => h("p.narrow-only", h("a", { href: hrefTo("memory") }, say.back));

  function draw() {
    const rows = store.all("memory_block").sort((one, other) => compare(one.label, other.label));
    list.setItems(rows);
    const isRead = store.get("list", "memory") !== undefined;
    const isGone =
      isRead && chosen !== "" && world.reads.standing(`memory_block/${chosen}`)?.state === "missing";
    const isMissing = isGone || (isRead && chosen !== "" && !store.get("memory_block", chosen));
    const text = isMissing ? say.missing : rows.length ? "" : say.none;
    showProgress(world, told, progressOf(world, LIST), { reading: say.reading, text });
    if (block) show(block.root, !isMissing);
    block?.show();
    create.update();
    beside.show((about) => about === `workspace/${workspace.id}` || isGoneBlock(about), workspace);
  }

  /**
   * Returns whether an outcome concerns a block that is gone. It is then shown above.
   *
   * @param {string} about
   */
  const isGoneBlock = (about) =>
    about.startsWith("memory_block/") && !store.get("memory_block", about.slice("memory_block/".length));

  const unbind = world.keys.bind(moveKeys(list));
  choose(place.query.get("block") ?? "");

  return {
    show(changes) {
      if (changes) block?.take(changes);
      draw();
    },
    moved({ query }) {
      choose(query.get("block") ?? "");
      draw();
    },
    close() {
      unbind();
      wish.close();
      list.close();
      block?.close();
    },
  };
}

/** @param {string | undefined} one @param {string | undefined} other */
const compare = (one = "", other = "") => one.localeCompare(other);
