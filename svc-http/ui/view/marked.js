// Somebody's words as nodes: the small part of Markdown that pure/text.js knows, and nothing else.
//
// Promises: whatever was written, it is text, paragraphs, lists, code and links over http; a control
// character is a mark that names it; a line goes on in its own direction. Leaves out: reading the text.

import { parse } from "../pure/text.js";
import { h } from "./node.js";

/** @typedef {any} TextNode A node as pure/text.js has it. */
/**
 * @typedef {{mention: (member: string | null, text: string) => Node | string, control: (name: string) =>
 * string}} Names
 */

/**
 * @param {string} text
 * @param {{names: Names, mentions?: (handle: string) => string | null}} how
 * @returns {HTMLElement}
 */
export function marked(text, { names, mentions }) {
  const nodes = parse(text, { mentions }).map((/** @type {TextNode} */ node) => nodeOf(node, names));
  return h("div.marked", ...nodes);
}

/** @param {TextNode} node @param {Names} names @returns {Node | string} */
function nodeOf(node, names) {
  const make = MAKERS[node.type];
  return make
    ? make(
        node,
        () => (node.children ?? []).map((/** @type {TextNode} */ child) => nodeOf(child, names)),
        names,
      )
    : "";
}

const AUTO = { dir: "auto" };

/** @type {Record<string, (node: TextNode, inner: () => (Node | string)[], names: Names) => Node | string>} */
const MAKERS = {
  text: ({ text }) => text,
  break: () => h("br"),
  rule: () => h("hr"),
  code: (_, inner) => h("code", { dir: "ltr" }, ...inner()),
  code_block: ({ language }, inner) =>
    h("pre", { dir: "ltr", tabindex: 0, "data-language": language }, ...inner()),
  control: ({ text }, _, names) => h("span.control", { title: names.control(text) }, text),
  paragraph: (_, inner) => h("p", AUTO, ...inner()),
  // The page has headings of its own; those of a message are under the message's.
  heading: ({ level }, inner) =>
    h("p.heading", { ...AUTO, role: "heading", "aria-level": Math.min(6, level + 3) }, ...inner()),
  quote: (_, inner) => h("blockquote", AUTO, ...inner()),
  list: ({ ordered, start }, inner) => (ordered ? h("ol", { start }, ...inner()) : h("ul", ...inner())),
  item: (_, inner) => h("li", AUTO, ...inner()),
  strong: (_, inner) => h("strong", ...inner()),
  em: (_, inner) => h("em", ...inner()),
  strike: (_, inner) => h("s", ...inner()),
  link: ({ href }, inner) =>
    h("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, h("bdi", ...inner())),
  mention: ({ member, text }, _, names) => names.mention(member, text),
};
