// What of a long text is shown at first: its beginning, as text or as a tree.

/** @typedef {{type: string, text?: string, children?: Tree[]} & Record<string, any>} Tree A node, as the service makes it of Markdown. */

/** @typedef {{lines: number, chars: number}} Head How much is shown of what is folded. */
/** @typedef {{lines: number, bytes: number, head: Head}} Room How much more is shown unfolded, and of what is folded. */

/** Texts that stand together have one. @returns {Room} */
export const newRoom = () => ({ lines: 200, bytes: 20_000, head: { lines: 40, chars: 4000 } });

/** @param {string} text */
export const linesIn = (text) => text.replace(/\n$/, "").split("\n").length;

/**
 * Takes the room for a text.
 *
 * @param {string} text
 * @param {Room} [room]
 * @returns {Head | null} How much of it is shown at first; null: all of it
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

/** The beginning of a text. @param {string} text @param {Head} head */
export const headOf = (text, { lines, chars }) => cutText(text, { lines: lines - 1, chars });

/**
 * The beginning of a tree: the nodes up to where so much text was shown, the last of them cut. `whole`
 * is all code of a block that is cut.
 *
 * @param {Tree[]} nodes
 * @param {Head} head
 * @returns {Tree[]}
 */
export const headOfTree = (nodes, head) => cut(nodes, { ...head });

/** What begins a line of its own. */
const BLOCK = /^(?:paragraph|heading|rule|item|code_block|row|break)$/;

/** @param {Tree[]} nodes @param {Head} room `lines`: after the one that was begun.  @returns {Tree[]} */
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
