// Markdown as nodes, from the tree that the server made.
//
// Guarantees: any tree becomes text, and links that the page may follow; control characters are named; each
// block has its own direction. Not here: parsing Markdown, and link targets within the board.

import { followed } from "../pure/links.js";
import { newLeft } from "../pure/shown.js";
import { markdown as say } from "../strings/en.js";
import { codeNode } from "./code.js";
import { h } from "./node.js";
import { shownNodes } from "./shown.js";

/** @typedef {import("../pure/fold.js").Tree} Tree */
/**
 * @typedef {{
 *   hrefOf: (href: string) => string | null,
 *   mention: (member: string | null, text: string) => Node | string,
 * }} Names `hrefOf`: returns the page of the board for an address.
 */
/**
 * @typedef {{names: Names, left: import("../pure/shown.js").Left, indent: number, isLink?: boolean}} How
 * `indent`: remaining indentation of lists and quotes, in characters.
 */

/**
 * @param {Tree[]} nodes
 * @param {Names} names
 * @returns {(Node | string)[]}
 */
export function treeNodes(nodes, names) {
  return blocks(nodes, { names, left: newLeft(), indent: INDENT });
}

/** Maximum total indentation of lists and quotes, in characters, so that text fits on a phone. */
const INDENT = 16;

/** Types of nodes whose text can continue the letter before it. */
const GOES_ON = /^(?:text|code|strong|em|strike|link)$/;
const INLINE = /^(?:text|code|strong|em|strike|link|break|mention)$/;
const AUTO = { dir: "auto" };

/** Draws blocks; inline nodes among them become a paragraph. @param {Tree[]} nodes @param {How} how */
function blocks(nodes, how) {
  /** @type {(Node | string)[]} */
  const made = [];
  /** @type {HTMLElement | null} */
  let line = null;
  for (const node of nodes) {
    if (!INLINE.test(node.type)) {
      line = null;
      made.push(...nodesOf(node, how));
      continue;
    }
    if (!line) made.push((line = h("p", AUTO)));
    line.append(...nodesOf(node, how));
  }
  return made;
}

/** @param {Tree[] | undefined} nodes @param {How} how */
const all = (nodes, how) => (nodes ?? []).flatMap((node) => nodesOf(node, how));

/** @param {Tree} node @param {How} how @returns {(Node | string)[]} */
function nodesOf(node, how) {
  if (!GOES_ON.test(node.type)) how.left.marks = 0;
  if (node.type === "break" || !INLINE.test(node.type)) how.left.line = 0;
  const make = MAKERS[node.type];
  if (make) return [make(node, how)];
  // A type that this page does not know is drawn as its content.
  return node.text === undefined ? all(node.children, how) : shownNodes(node.text, how.left);
}

/** @type {Record<string, (node: Tree, how: How) => Node | string>} */
const MAKERS = {
  break: () => h("br"),
  rule: () => h("hr"),
  code: ({ text = "" }, { left }) => h("code", { dir: "ltr" }, ...shownNodes(text, left)),
  code_block: ({ text = "", whole = text, language = "", info }, { left }) => codeNode(text, language, whole, left, info),
  paragraph: ({ children }, how) => h("p", AUTO, ...all(children, how)),
  // Headings of a message rank below those of the page.
  heading: ({ level, children }, how) =>
    h("p.heading", { ...AUTO, role: "heading", "aria-level": Math.min(6, level + 3) }, ...all(children, how)),
  quote({ children }, how) {
    const inner = within(how, 2);
    return h("blockquote", { ...AUTO, class: inner === how ? "deep" : null }, ...blocks(children ?? [], inner));
  },
  list({ start, children = [] }, how) {
    const digits = start === undefined ? 1 : String(start + children.length - 1).length;
    const inner = within(how, digits + 2);
    const props = { start, class: inner === how ? "deep" : `digits-${digits}` };
    return h(start === undefined ? "ul" : "ol", props, ...all(children, inner));
  },
  item: ({ checked, children }, how) =>
    checked === undefined
      ? h("li", AUTO, ...all(children, how))
      : h("li.to-do", AUTO, box(checked), " ", ...all(children, how)),
  table: ({ align = [], children = [] }, how) =>
    h(
      "div.table",
      { role: "region", "aria-label": say.table, tabindex: 0 },
      h(
        "table",
        h("thead", ...children.slice(0, 1).map((row) => rowOf(row, "th", align, how))),
        h("tbody", ...children.slice(1).map((row) => rowOf(row, "td", align, how))),
      ),
    ),
  strong: ({ children }, how) => h("strong", ...all(children, how)),
  em: ({ children }, how) => h("em", ...all(children, how)),
  strike: ({ children }, how) => h("s", ...all(children, how)),
  link: ({ href, children }, how) => linkNode(href, all(children, { ...how, isLink: true }), how.names),
  mention({ member, text = "" }, { names, left, isLink }) {
    left.line += text.length;
    // Links cannot be nested.
    return names.mention((!isLink && member) || null, text);
  },
};

/**
 * Returns the options for nested content; `how` itself if there is no room to indent.
 *
 * @param {How} how
 * @param {number} by
 * @returns {How}
 */
const within = (how, by) => (by > how.indent ? how : { ...how, indent: how.indent - by });

/** @param {boolean} checked */
const box = (checked) =>
  h("input", { type: "checkbox", disabled: true, checked, "aria-label": checked ? say.done : say.notDone });

/** @param {Tree} row @param {"th" | "td"} tag @param {string[]} align @param {How} how */
function rowOf(row, tag, align, how) {
  const cells = (row.children ?? []).map((cell, at) => {
    how.left.line = 0;
    return h(
      tag,
      { ...AUTO, "data-align": align[at], scope: tag === "th" ? "col" : null },
      ...all(cell.children, how),
    );
  });
  return h("tr", ...cells);
}

/** @param {string} href @param {(Node | string)[]} inner @param {Names} names */
function linkNode(href, inner, names) {
  const own = names.hrefOf(href);
  const text = h("bdi", ...inner);
  if (own) return h("a", { href: own }, text);
  const address = followed(href);
  return address ? h("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow" }, text) : text;
}
