// Bodies of Markdown on the page: as they are meant once the service has made trees of them, and as text until then.
//
// Promises: a tree that comes at once is drawn in place of the text, which would be laid out for nothing; one that comes changes the bodies that it is of, and nothing that one reads moves; one session's
// trees are gone with it. Leaves out: the first draw of a page that has not loaded this yet (marked.js).

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

/** So long a body waits for its tree before it is text. */
const AT_ONCE = 100;
/** What becomes text then. @type {Set<() => void>} */
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

/** Draws, and what is under the pointer in a timeline stays there. @param {() => void} draw */
function together(draw) {
  const list = document.querySelector("main ol.timeline");
  if (list instanceof HTMLElement) steadily(list, draw);
  else draw();
}

/**
 * @param {HTMLElement} node
 * @param {World} world
 * @param {import("./state/trees.js").Source} source
 */
export function fill(node, world, source) {
  const trees = treesOf(world);
  const { text } = source;
  let tree = trees.known(source);
  let isWaiting = !tree && !node.hasChildNodes();
  const redraw = foldable(node, text, (isWhole) => {
    if (tree) return drawn(world, isWhole ? tree : headOfTree(tree));
    return isWaiting ? [] : [h("p", { dir: "auto" }, ...shownNodes(isWhole ? text : headOf(text)))];
  });
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
 * @param {Tree[]} nodes
 */
export function drawn(world, nodes) {
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
