// A small part of Markdown as a tree of plain nodes: paragraphs, headings, lists, quotes, code, and what is in a line.
//
// It never makes markup: whatever text is no Markdown of these forms is text. Depth and number of nodes are bounded, and
// what is beyond them is text too. Links lead to http and https alone.

import { createSigns } from "./handles.js";
import { inline } from "./inline.js";
import { shown, shownText } from "./shown.js";

export { shown, shownText } from "./shown.js";
export { webAddress } from "./inline.js";

/**
 * @typedef {{type: "text" | "control", text: string}
 *   | {type: "break" | "rule"}
 *   | {type: "code", children: TextNode[]}
 *   | {type: "code_block", language: string, children: TextNode[]}
 *   | {type: "mention", text: string, member: string}
 *   | {type: "link", href: string, children: TextNode[]}
 *   | {type: "heading", level: number, children: TextNode[]}
 *   | {type: "list", ordered: boolean, start: number, children: TextNode[]}
 *   | {type: "paragraph" | "quote" | "item" | "strong" | "em" | "strike", children: TextNode[]}} TextNode
 */
/** @typedef {import("./inline.js").Setting} Setting */

export const NODES_MAX = 5000;
const DEPTH_MAX = 5;

const FENCE = /^ {0,3}(`{3,}|~{3,})(?=([^`]*))\2$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const QUOTE = /^ {0,3}>\s?/;
const ITEM = /^( {0,3})(?:([-*+])|(\d{1,9})[.)])(?:\s+|$)/;
const INDENT = /^(?: {2,}|\t)/;
const INDENTED = /^(?: {4}|\t)/;

/**
 * @param {string} text
 * @param {{mentions?: (handle: string) => string | null, missed?: (text: string) => void}} [options] `mentions`: the
 * member that a handle in lower case is of; `missed`: is told of each mention of nobody, as it is written
 * @returns {TextNode[]}
 */
export function parse(text, { mentions, missed = () => {} } = {}) {
  const left = { nodes: NODES_MAX };
  // Where nobody can be mentioned, no sign is looked at.
  const setting = { mentions: mentions ?? (() => null), missed, signs: createSigns(), quoted: !mentions, left };
  return blocks(text.replace(/\r\n?/g, "\n").split("\n"), setting, 0);
}

/**
 * @param {string[]} lines
 * @param {Setting} setting
 * @param {number} depth
 * @returns {TextNode[]}
 */
function blocks(lines, setting, depth) {
  /** @type {TextNode[]} */
  const nodes = [];
  let at = 0;
  while (at < lines.length) {
    if (setting.left.nodes <= 0) return [...nodes, { type: "paragraph", children: shown(lines.slice(at).join("\n")) }];
    setting.left.nodes -= 1;
    const { node, next } = block(lines, at, setting, depth);
    if (node) nodes.push(node);
    at = next;
  }
  return nodes;
}

/** @typedef {{node: TextNode | null, next: number}} Block */

/**
 * A title without the number signs that close it.
 *
 * @param {string} title
 */
function withoutClosing(title) {
  const trimmed = title.trimEnd();
  let end = trimmed.length;
  while (trimmed[end - 1] === "#") end -= 1;
  const isClosed = end === 0 || trimmed[end - 1] === " " || trimmed[end - 1] === "\t";
  return isClosed ? trimmed.slice(0, end).trimEnd() : trimmed;
}

/** @param {string[]} lines @param {number} at @param {Setting} setting @param {number} depth @returns {Block} */
function block(lines, at, setting, depth) {
  const line = lines[at];
  if (line.trim() === "") return { node: null, next: at + 1 };
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence[1], shownText(fence[2].trim().slice(0, 50)));
  const heading = HEADING.exec(line);
  if (heading) {
    const title = withoutClosing(line.slice(heading[0].length));
    return { node: { type: "heading", level: heading[1].length, children: inline(title, setting) }, next: at + 1 };
  }
  if (INDENTED.test(line)) return indented(lines, at);
  if (RULE.test(line)) return { node: { type: "rule" }, next: at + 1 };
  if (depth < DEPTH_MAX && QUOTE.test(line)) return quote(lines, at, setting, depth);
  if (depth < DEPTH_MAX && ITEM.test(line)) return list(lines, at, setting, depth);
  return paragraph(lines, at, setting);
}

/** @param {string[]} lines @param {number} at @param {string} fence @param {string} language @returns {Block} */
function fenced(lines, at, fence, language) {
  const isEnd = (/** @type {string} */ line) => line.trim().startsWith(fence) && line.trim().replaceAll(fence[0], "") === "";
  let end = at + 1;
  while (end < lines.length && !isEnd(lines[end])) end += 1;
  const code = lines.slice(at + 1, end).join("\n");
  return { node: { type: "code_block", language, children: shown(code) }, next: end + 1 };
}

/** @param {string[]} lines @param {number} at @returns {Block} */
function indented(lines, at) {
  let end = at + 1;
  while (end < lines.length && INDENTED.test(lines[end])) end += 1;
  const code = lines.slice(at, end).map((line) => line.replace(INDENTED, ""));
  return { node: { type: "code_block", language: "", children: shown(code.join("\n")) }, next: end };
}

/** @param {string[]} lines @param {number} at @param {Setting} setting @param {number} depth @returns {Block} */
function quote(lines, at, setting, depth) {
  const inner = [];
  let end = at;
  // A paragraph that is quoted goes on without the mark.
  while (end < lines.length && (QUOTE.test(lines[end]) || isOfQuote(lines[end - 1], lines[end]))) {
    inner.push(lines[end].replace(QUOTE, ""));
    end += 1;
  }
  return { node: { type: "quote", children: blocks(inner, { ...setting, quoted: true }, depth + 1) }, next: end };
}

/** @param {string} before @param {string} line */
function isOfQuote(before, line) {
  const quoted = before.replace(QUOTE, "");
  return continues(line) && (continues(quoted) || QUOTE.test(quoted) || ITEM.test(quoted)) && !INDENTED.test(quoted);
}

/** @param {string[]} lines @param {number} at @param {Setting} setting @param {number} depth @returns {Block} */
function list(lines, at, setting, depth) {
  const first = /** @type {RegExpExecArray} */ (ITEM.exec(lines[at]));
  const ordered = first[3] !== undefined;
  /** @type {TextNode[]} */
  const children = [];
  let next = at;
  for (
    let mark = ITEM.exec(lines[next] ?? "");
    mark && (mark[3] !== undefined) === ordered;
    mark = ITEM.exec(lines[next] ?? "")
  ) {
    if (setting.left.nodes <= 0) break;
    const inner = [lines[next].slice(mark[0].length)];
    next += 1;
    // What is indented is of the item, and so is an empty line before it.
    while (next < lines.length && isOfItem(lines, next)) inner.push(lines[next++].replace(INDENT, ""));
    setting.left.nodes -= 1;
    children.push({ type: "item", children: blocks(inner, setting, depth + 1) });
  }
  return { node: { type: "list", ordered, start: ordered ? Number(first[3]) : 1, children }, next };
}

/** @param {string[]} lines @param {number} at */
function isOfItem(lines, at) {
  if (INDENT.test(lines[at])) return lines[at].trim() !== "";
  return lines[at].trim() === "" && INDENT.test(lines[at + 1] ?? "") && (lines[at + 1] ?? "").trim() !== "";
}

/** @param {string[]} lines @param {number} at @param {Setting} setting @returns {Block} */
function paragraph(lines, at, setting) {
  let end = at + 1;
  while (end < lines.length && continues(lines[end])) end += 1;
  return { node: { type: "paragraph", children: inline(lines.slice(at, end).join("\n"), setting) }, next: end };
}

/** @param {string} line */
const continues = (line) =>
  line.trim() !== "" && ![FENCE, HEADING, RULE, QUOTE, ITEM].some((/** @type {RegExp} */ begins) => begins.test(line));

/**
 * A text in one line, for cards.
 * @param {string} text
 * @param {number} [max] characters at most
 * @returns {string}
 */
export function plain(text, max = 200) {
  // Of a long text, no more is looked at than what could be shown.
  const words = saying(parse(text.slice(0, max * 4)))
    .replace(/\s+/g, " ")
    .trim();
  const chars = Array.from(words);
  return chars.length > max
    ? `${chars
        .slice(0, max - 1)
        .join("")
        .trimEnd()}…`
    : words;
}

/** @param {TextNode[]} nodes @returns {string} */
function saying(nodes) {
  return nodes.map((node) => says(node)).join("");
}

/** @param {TextNode} node @returns {string} */
function says(node) {
  if (node.type === "control") return "";
  if ("text" in node) return node.text;
  if (!("children" in node)) return " ";
  const isBlock = !["strong", "em", "strike", "link", "code"].includes(node.type);
  return isBlock ? ` ${saying(node.children)} ` : saying(node.children);
}
