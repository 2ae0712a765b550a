// Renders a member's Markdown anywhere on the page.
//
// Guarantees: the text is shown immediately, unformatted; it is formatted once the renderer is loaded and the
// server has parsed it. Not here: loading trees and drawing them (bodies.js).

import { h } from "./view/node.js";
import { shownNodes } from "./view/shown.js";

/** The renderer of bodies, once it is loaded. @type {typeof import("./bodies.js") | null} */
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
    // If the renderer cannot be loaded, the text stays unformatted.
    load().then(({ fill }) => fill(node, world, source), () => {});
  }
  return node;
}
