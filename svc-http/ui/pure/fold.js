// Folds a long text: computes the beginning that is shown at first, as text or as a tree.

/**
 * @typedef {{type: string, text?: string, children?: Tree[]} & Record<string, any>} Tree Node that the server
 * made from Markdown.
 */

/** @typedef {{lines: number, chars: number}} Head Maximum length of a folded text. */
/**
 * @typedef {{lines: number, bytes: number, head: Head}} Room Remaining length of unfolded texts, and of
 * folded texts.
 */

/** Creates the room that texts shown together share. @returns {Room} */
export const newRoom = () => ({ lines: 200, bytes: 20_000, head: { lines: 40, chars: 4000 } });

/** @param {string} text */
export const linesIn = (text) => text.replace(/\n$/, "").split("\n").length;

/**
 * Takes the room for a text.
 *
 * @param {string} text
 * @param {Room} [room]
 * @returns {Head | null} How much of the text is shown at first; null for all of it.
 */
export function headFor(text, room = newRoom()) {
  const lines = linesIn(text);
  const bytes = new TextEncoder().encode(text).length;
  if (lines > room.lines || bytes > room.bytes) {
    const { head } = room;
    room.head = { lines: Math.max(0, head.lines - lines), chars: Math.max(0, head.chars - text.length) };
    return head;
  }
  room.lines -= lines;
  room.bytes -= bytes;
  return null;
}

/** Returns the beginning of a text. @param {string} text @param {Head} head */
export const headOf = (text, { lines, chars }) => cutText(text, { lines: lines - 1, chars });

/**
 * Returns the beginning of a tree, with its last node cut.
 *
 * `whole` of a cut code block contains all its code.
 *
 * @param {Tree[]} nodes
 * @param {Head} head
 * @returns {Tree[]}
 */
export const headOfTree = (nodes, head) => cut(nodes, { ...head });

/** Types of nodes that begin a new line. */
const BLOCK = /^(?:paragraph|heading|rule|item|code_block|row|break)$/;

/**
 * @param {Tree[]} nodes
 * @param {Head} room `lines`: number of lines left after the current one.
 * @returns {Tree[]}
 */
function cut(nodes, room) {
  const kept = [];
  for (const node of nodes) {
    const isBlock = BLOCK.test(node.type);
    if (room.chars <= 0 || (isBlock && room.lines <= 0)) break;
    if (isBlock) room.lines -= 1;
    const { text, children, info = node.language ?? "" } = node;
    kept.push({
      ...node,
      ...(node.type === "code_block" ? { whole: text, info: cutText(info, room) } : {}),
      ...(text === undefined ? {} : { text: cutText(text, room) }),
      ...(children === undefined ? {} : { children: cut(children, room) }),
    });
  }
  return kept;
}

/** @param {string} text @param {Head} room */
function cutText(text, room) {
  const chars = Array.from(text.slice(0, room.chars * 2)).slice(0, room.chars).join("");
  const lines = chars.split("\n").slice(0, room.lines + 1);
  room.lines -= lines.length - 1;
  const shown = lines.join("\n");
  room.chars -= shown.length;
  return shown;
}
