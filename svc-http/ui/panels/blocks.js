// Content blocks of a message: text, code, links, data, artifacts and votes.
//
// Guarantees: only web addresses become links; data is shown as text. Not here: the bytes of artifacts.

import { webAddress } from "../pure/links.js";
import { shownText } from "../pure/shown.js";
import { marked } from "../marked.js";
import { voteNode } from "./vote.js";
import { task as say } from "../strings/en.js";
import { h, words } from "../view/node.js";
import { verbatim } from "../view/plain.js";

/**
 * @param {import("../world.js").World} world
 * @param {any} block
 * @param {{of: string, channel: string, room: import("../pure/fold.js").Room}} of Key of the entity that
 * contains the block, its channel, and its room to unfold.
 * @returns {HTMLElement}
 */
export function blockNode(world, block, of) {
  switch (block.type) {
    case "text":
      return marked(world, block.text, of);
    case "code":
      return marked(world, block.text, { language: block.language ?? "", room: of.room });
    case "resource_link":
      return resource(block);
    case "artifact":
      return h("p.quiet", say.artifact(shownText(block.title ?? block.sha.slice(0, 12))));
    case "vote":
      return voteNode(world, block);
    default:
      return h("details", h("summary.quiet", say.data), verbatim(block.data ?? block));
  }
}

/** @param {any} block */
function resource({ uri, name }) {
  const href = webAddress(uri);
  const text = words(name ?? uri);
  return href
    ? h("p", h("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, text))
    : h("p.quiet", text, " ", words(uri, ".mono"));
}
