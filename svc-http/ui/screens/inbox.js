// Inbox: messages to the user, assignments and requests, newest first.
//
// Guarantees: an item that is marked as read stays until the user moves on; many items are marked together;
// approvals are decided in place. Not here: the content of a row (panels/inbox-item.js).

import { actionOf } from "../actions.js";
import { disable, send, whyNot } from "../act.js";
import { makeItem, updateItem } from "../panels/inbox-item.js";
import { progressOf, showProgress } from "../reading.js";
import { board as boardSay, inbox as say, inboxReasons } from "../strings/en.js";
import { createHeld } from "../view/held.js";
import { button, h, setText } from "../view/node.js";
import { createChosen } from "./chosen.js";
import { listKeys } from "./list-keys.js";

/** @typedef {import("../world.js").World} World */

const SHOWN = 50;
const TICK = 30_000;

/**
 * @param {HTMLElement} root
 * @param {World} world
 * @param {import("../router.js").Place} place
 * @returns {import("../screens.js").Open}
 */
export function open(root, world, place) {
  const { store } = world;
  const wish = world.reads.wish();
  let isAll = place.query.get("show") === "all";
  let reason = place.query.get("reason") ?? "";
  const which = choice(
    say.show,
    "show",
    [
      ["", say.unread],
      ["all", say.all],
    ],
    () => setQuery(),
  );
  const reasons = choice(say.reason, "reason", [["", say.any], ...Object.entries(inboxReasons)], () =>
    setQuery(),
  );
  const count = h("span.quiet.count");
  const markAll = button(say.markAll, () => void mark(store.all("inbox")), {
    "data-action": "mark_inbox_read",
  });
  const status = h("p.quiet", { role: "status", hidden: true });
  const list = createHeld({
    label: say.title,
    waits: boardSay.waits,
    earlier: say.more,
    most: SHOWN,
    key: (/** @type {any} */ item) => item.id,
    make: (item) => makeItem(world, item, choose),
    update: (node, item) => updateItem(node, item, chosen.ids.has(item.id)),
  });
  const markChosen = button(say.markChosen, () => void mark(itemsChosen()), {
    class: "primary",
    "data-action": "mark_inbox_read",
  });
  const chosen = createChosen(draw, say.chosen, markChosen);
  root.classList.add("stack", "now");
  root.append(
    h("div.row", h("h1", say.title, " ", count), h("span.end"), which.node, reasons.node, markAll),
    list.root,
    // The status follows the list, so that it does not move rows when the list becomes empty.
    status,
    chosen.node,
  );
  which.select.value = isAll ? "all" : "";
  reasons.select.value = reason;

  const kind = () => (isAll ? "inbox_all" : "inbox");
  /** @param {string} id */
  const itemOf = (id) => store.get(kind(), id);
  const itemsChosen = () => [...chosen.ids].flatMap((id) => itemOf(id) ?? []);
  const key = () => `list/${kind()}`;

  function setQuery() {
    isAll = which.select.value === "all";
    reason = reasons.select.value;
    const query = new URLSearchParams();
    if (isAll) query.set("show", "all");
    if (reason) query.set("reason", reason);
    const text = query.toString();
    world.note(text ? `?${text}` : "");
    chosen.clear();
    list.take();
    read();
    draw();
    list.take();
  }

  function read() {
    wish.set([key(), "list/inbox", "list/approvals", "list/dms"]);
  }

  /** @param {string | null} id */
  const choose = (id, isRange = false) => chosen.choose(list.keys(), id, isRange);

  /** @param {any[]} items */
  async function mark(items) {
    const action = actionOf("mark_inbox_read");
    const lsns = items.filter(({ read: isRead }) => !isRead).map(({ lsn }) => lsn);
    const first = items.find(({ lsn }) => lsn === lsns[0]);
    chosen.clear();
    if (!action || !first) return;
    for (let at = 0; at < lsns.length; at += AT_ONCE) {
      const write = await send(world, action, first, { lsns: lsns.slice(at, at + AT_ONCE) });
      if (write.problem) return;
    }
  }

  function draw() {
    const items = store
      .all(kind())
      .filter((item) => (isAll || !item.read) && (!reason || item.reason === reason))
      .sort((one, other) => other.lsn - one.lsn);
    list.setItems(items);
    const unread = store.all("inbox").filter(({ read: isRead }) => !isRead).length;
    setText(count, unread ? say.count(unread, store.get("list", "inbox")?.isWhole !== false) : "");
    const why = whyNot(world, "mark_inbox_read");
    disable(markAll, unread === 0 ? say.nothing : why);
    disable(markChosen, why);
    drawStatus(items.length);
    chosen.draw((id) => itemOf(id) !== undefined);
  }

  /** @param {number} shown */
  function drawStatus(shown) {
    const text = shown ? "" : isAll || reason ? say.empty : say.nothing;
    showProgress(world, status, progressOf(world, [key()]), { reading: say.reading, text });
  }

  const threadId = () => itemOf(list.here() ?? "")?.thread_id ?? null;
  const keys = listKeys(world, list, threadId);
  const unbind = world.keys.bind({
    ...keys,
    e: (event) => (chosen.ids.size === 0 ? keys.e?.(event) : void mark(itemsChosen())),
    x: () => choose(list.here()),
    "Shift+x": () => choose(list.here(), true),
    Escape: (event) => chosen.clear() || keys.Escape?.(event),
  });
  const clock = setInterval(draw, TICK);
  read();

  return {
    show(changes) {
      if (isAll && changes?.lists.has("inbox")) world.reads.again("list/inbox_all");
      draw();
    },
    focusOn: list.focus,
    moved({ query }) {
      which.select.value = query.get("show") ?? "";
      reasons.select.value = query.get("reason") ?? "";
      setQuery();
    },
    close() {
      clearInterval(clock);
      unbind();
      wish.close();
      list.close();
    },
  };
}

/** Maximum number of items that one request marks as read. */
const AT_ONCE = 100;

/**
 * @param {string} label
 * @param {string} name
 * @param {string[][]} values
 * @param {() => void} changed
 */
function choice(label, name, values, changed) {
  const options = values.map(([value, text]) => h("option", { value }, text));
  const select = h("select", { name, onchange: changed }, ...options);
  return { select, node: h("label.row.tight", h("span.quiet.small", label), select) };
}
