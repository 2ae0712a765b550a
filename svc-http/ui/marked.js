// Somebody's words in Markdown, wherever they stand on the page.
//
// Promises: the words are there at once, as text; as they are meant they are once what draws them is loaded and
// the service has read them. Leaves out: both (bodies.js).

import { h } from "./view/node.js";
import { shownNodes } from "./view/shown.js";

/** What draws bodies, once it is loaded. @type {typeof import("./bodies.js") | null} */
let bodies = null;
const load = async () => (bodies = await import("./bodies.js"));

/**
 * @param {import("./world.js").World} world
 * @param {string} text
 * @param {Omit<import("./bodies.js").Body, "text">} [of]
 * @returns {HTMLElement}
 */
export function marked(world, text, of = {}) {
  const node = h("div.marked");
  const source = { ...of, text };
  if (bodies) bodies.fill(node, world, source);
  else {
    node.append(h("p", { dir: "auto" }, ...shownNodes(text)));
    // Without it they stay text.
    load().then(({ fill }) => fill(node, world, source), () => {});
  }
  return node;
}
