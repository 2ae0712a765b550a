// What of a long text is shown at first: its beginning, as text or as a tree.

/** @typedef {{type: string, text?: string, children?: Tree[]} & Record<string, any>} Tree A node, as the service makes it of Markdown. */

const LINES_MAX = 200;
const BYTES_MAX = 20_000;
/** What is shown of what is longer. */
const [HEAD_LINES, HEAD_CHARS] = [40, 4000];

/** @param {string} text */
export const linesIn = (text) => text.replace(/\n$/, "").split("\n").length;

/** Whether no more than the beginning is shown at first. @param {string} text */
export function isLong(text) {
  if (text.length <= LINES_MAX) return false;
  const isBig = text.length * 3 > BYTES_MAX && new TextEncoder().encode(text).length > BYTES_MAX;
  return isBig || linesIn(text) > LINES_MAX;
}

/** The beginning of a text. @param {string} text */
export const headOf = (text) => cutText(text, { lines: HEAD_LINES - 1, chars: HEAD_CHARS });

/**
 * The beginning of a tree: the nodes up to where so much text was shown, the last of them cut. `whole`
 * is all code of a block that is cut.
 *
 * @param {Tree[]} nodes
 * @returns {Tree[]}
 */
export const headOfTree = (nodes) => cut(nodes, { lines: HEAD_LINES, chars: HEAD_CHARS });

/** What begins a line of its own. */
const BLOCK = /^(?:paragraph|heading|rule|item|code_block|row|break)$/;

/** @typedef {{lines: number, chars: number}} Room `lines`: after the one that was begun. */

/** @param {Tree[]} nodes @param {Room} room @returns {Tree[]} */
function cut(nodes, room) {
  const kept = [];
  for (const node of nodes) {
    const isBlock = BLOCK.test(node.type);
    if (room.chars <= 0 || (isBlock && room.lines <= 0)) break;
    if (isBlock) room.lines -= 1;
    const { text, children } = node;
    kept.push({
      ...node,
      ...(text === undefined ? {} : { text: cutText(text, room) }),
      ...(node.type === "code_block" ? { whole: text } : {}),
      ...(children === undefined ? {} : { children: cut(children, room) }),
    });
  }
  return kept;
}

/** @param {string} text @param {Room} room */
function cutText(text, room) {
  const chars = Array.from(text.slice(0, room.chars * 2)).slice(0, room.chars).join("");
  const lines = chars.split("\n").slice(0, room.lines + 1);
  room.lines -= lines.length - 1;
  const shown = lines.join("\n");
  room.chars -= shown.length;
  return shown;
}
