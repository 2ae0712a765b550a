// Sentences with parts that become links, such as a task, a member or a channel.
//
// Guarantees: an unknown or invisible entity becomes text, not a link. Not here: the sentences.

import { shownText } from "../pure/shown.js";
import { h } from "./node.js";

/**
 * @typedef {string | {thread: string} | {member: string} | {channel: string} | {time: number} | {code:
 * string} | {op: string, text: string}} Part
 */
/**
 * @typedef {{
 *   thread: (id: string) => Node | string,
 *   member: (id: string) => Node | string,
 *   channel: (id: string) => Node | string,
 *   time: (ms: number) => Node | string,
 *   op: (operation: string, text: string) => Node | string,
 * }} Names
 */

/**
 * @param {Part[]} parts
 * @param {Names} names
 * @returns {(Node | string)[]}
 */
export function nodesOf(parts, names) {
  return parts.map((part) => {
    if (typeof part === "string") return part;
    if ("thread" in part) return names.thread(part.thread);
    if ("member" in part) return names.member(part.member);
    if ("channel" in part) return names.channel(part.channel);
    if ("time" in part) return names.time(part.time);
    if ("code" in part) return h("bdi.mono", shownText(part.code));
    return names.op(part.op, part.text);
  });
}

/** @param {(Node | string)[]} nodes */
export function plainOf(nodes) {
  return nodes.map((node) => (typeof node === "string" ? node : (node.textContent ?? ""))).join("");
}
