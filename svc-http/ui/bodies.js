// Renders Markdown bodies: as plain text until the server has parsed them, then as trees.
//
// Guarantees: a tree that arrives within 100 ms is drawn without drawing the text first; a tree changes only
// its own bodies and does not move the row under the pointer; the trees of a session are discarded with it.
// Not here: the first draw before this module is loaded (marked.js).

import { hrefTo } from "./names.js";
import { headOf, headOfTree } from "./pure/fold.js";
import { thingOf } from "./pure/links.js";
import { createTrees } from "./state/trees.js";
import { foldable } from "./view/fold.js";
import { h } from "./view/node.js";
import { shownNodes } from "./view/shown.js";
import { steadily } from "./view/steady.js";
import { treeNodes } from "./view/tree.js";

/** @typedef {import("./world.js").World} World */
/** @typedef {import("./pure/fold.js").Tree} Tree */
/**
 * @typedef {import("./state/trees.js").Source & {language?: string, room?: import("./pure/fold.js").Room | null}} Body
 * `language`: the text is code in this language, not Markdown; `room`: as in `foldable`.
 */

/** Milliseconds that a body waits for its tree before it is drawn as text. */
const AT_ONCE = 100;
/** Bodies that will be drawn as text when the wait ends. @type {Set<() => void>} */
let late = new Set();

/** @param {() => void} draw */
function drawLate(draw) {
  if (late.size === 0) setTimeout(drawWaiting, AT_ONCE);
  late.add(draw);
}

function drawWaiting() {
  const draws = late;
  late = new Set();
  together(() => draws.forEach((draw) => draw()));
}

/** @type {WeakMap<World, ReturnType<typeof createTrees>>} */
const ofWorlds = new WeakMap();

/** @param {World} world */
function treesOf(world) {
  const known = ofWorlds.get(world);
  if (known) return known;
  const { store, ask, lacks } = world;
  const trees = createTrees({ store, ask, lacks, together });
  ofWorlds.set(world, trees);
  world.endings.add(trees.close);
  return trees;
}

/** Draws, and keeps the row under the pointer in a timeline where it is. @param {() => void} draw */
function together(draw) {
  const list = document.querySelector("main ol.timeline");
  if (list instanceof HTMLElement) steadily(list, draw);
  else draw();
}

/**
 * @param {HTMLElement} node
 * @param {World} world
 * @param {Body} source
 */
export function fill(node, world, source) {
  const trees = treesOf(world);
  const { text, language, room } = source;
  let tree = language === undefined ? trees.known(source) : [{ type: "code_block", language, text }];
  let isWaiting = !tree && !node.hasChildNodes();
  const redraw = foldable(node, text, (head) => (isWaiting && !tree ? [] : nodesOf(world, tree, text, head)), room);
  const drawText = () => {
    isWaiting = false;
    redraw();
  };
  if (isWaiting) drawLate(drawText);
  if (!tree)
    trees.want(source, (nodes) => {
      late.delete(drawText);
      tree = nodes;
      redraw();
    });
}

/**
 * @param {World} world
 * @param {Tree[] | null} tree Null: the text is shown unparsed.
 * @param {string} text
 * @param {import("./pure/fold.js").Head | null} head
 */
export function nodesOf(world, tree, text, head) {
  if (tree) return drawn(world, head ? headOfTree(tree, head) : tree);
  return [h("p", { dir: "auto" }, ...shownNodes(head ? headOf(text, head) : text))];
}

/**
 * @param {World} world
 * @param {Tree[]} nodes
 */
function drawn(world, nodes) {
  return treeNodes(nodes, {
    mention: world.names.mention,
    hrefOf(href) {
      const thing = thingOf(href, world.me.workspace_id);
      if (!thing) return null;
      const rest = thing.screen === "task" && thing.message ? `#m-${thing.message}` : "";
      return hrefTo(thing.screen, { id: thing.id }, rest);
    },
  });
}
