// Dialogs with the edit history of a message and with the links to it.
//
// Not here: the message itself (panels/message.js).

import { ms } from "./pure/clock.js";
import { marked } from "./marked.js";
import { hrefTo } from "./names.js";
import { stampOf } from "./panels/message.js";
import { message as say, problemParts, shell, task } from "./strings/en.js";
import { openDialog } from "./view/dialog.js";
import { h, link, setChildren } from "./view/node.js";
import { nodesOf } from "./view/parts.js";

/** @typedef {import("./world.js").World} World */

const MOST = 500;

/** @param {World} world @param {string} id */
export function openEdits(world, id) {
  const channel = world.store.get("message", id)?.channel_id;
  return openRead(world, "list_message_edits", id, say.earlier, say.noEarlier, (one) =>
    h(
      "li.message",
      h("p", stampOf(world, ms(one.written_at) ?? 0)),
      one.body ? marked(world, one.body, { of: `message/${id}`, isPast: true, channel }) : "",
    ),
  );
}

/** @param {World} world @param {string} id */
export function openBacklinks(world, id) {
  return openRead(world, "list_message_backlinks", id, say.backlinks, say.noBacklinks, (one) =>
    h("li", ...backlinkOf(world, one)),
  );
}

/** @param {World} world @param {any} one @returns {(Node | string)[]} */
function backlinkOf(world, one) {
  const { type, kind, emoji, from_id, from_thread_id, member_id, pinned_by } = one;
  if (type === "relation") {
    const href = from_thread_id ? hrefTo("task", { id: from_thread_id }, `#m-${from_id}`) : null;
    const text = say.relatedBy[kind] ?? kind;
    return [h("span.chip", text), " ", href ? link(href, {}, say.another) : say.another];
  }
  if (type === "reaction") return [world.names.member(member_id), say.reacted(emoji)];
  return type === "pin" ? [world.names.member(pinned_by), say.pinnedIt] : [say.asks];
}

/**
 * @param {World} world
 * @param {string} op
 * @param {string} id
 * @param {string} title
 * @param {string} none
 * @param {(row: any) => HTMLElement} draw
 */
async function openRead(world, op, id, title, none, draw) {
  const place = h("div.stack", h("p.quiet.later", shell.loading));
  const isThere = () => world.store.get("message", id)?.withdrawn === false;
  const wasThere = isThere();
  /** If the message is withdrawn while the dialog is open, its text is removed. */
  const look = () => {
    if (wasThere && !isThere()) setChildren(place, [h("p.quiet", task.withdrawn)]);
  };
  const onClose = world.store.watch(look);
  openDialog({ title, closeLabel: shell.close, body: [place], isWide: true, name: op, onClose });
  try {
    const { body } = await world.reads.pages(op, { message_id: id }, MOST);
    const rows = body.items.map(draw);
    setChildren(place, [rows.length ? h("ol.stack.tight", ...rows) : h("p.quiet", none)]);
    look();
  } catch (refused) {
    const problem = /** @type {import("./net/ask.js").Problem} */ (refused);
    setChildren(place, [h("p.problem", ...nodesOf(problemParts(problem), world.names))]);
  }
}
