// Rows for slots and paused repositories: state, users, waiting tasks and actions.
//
// Not here: what they limit.

import { ms } from "../pure/clock.js";
import { waitingForRepo, waitingForSlot } from "../pure/conflicts.js";
import { relative } from "../pure/format.js";
import { conflicts as say } from "../strings/en.js";
import { actionBar } from "../act.js";
import { toldBeside } from "../told.js";
import { h, setAttr, setChildren, setText, show, words } from "../view/node.js";

/** @typedef {import("../world.js").World} World */

const NAMED = 10;
/** @type {WeakMap<HTMLElement, (entity: any, isLeaving: boolean) => void>} */
const updates = new WeakMap();

/** @param {HTMLElement} node @param {any} entity @param {boolean} isLeaving */
export function updateRule(node, entity, isLeaving) {
  updates.get(node)?.(entity, isLeaving);
}

/**
 * @param {World} world
 * @param {"slot" | "pause"} on
 * @param {HTMLElement[]} lines
 * @param {(entity: any) => void} draw
 */
function row(world, on, lines, draw) {
  const buttons = h("div.row");
  const receipts = h("div");
  const bar = actionBar(world, on, buttons);
  const beside = toldBeside(world, receipts);
  const node = h("li.rule.stack.tight", ...lines, buttons, receipts);
  updates.set(node, (entity, isLeaving) => {
    setAttr(node, "data-leaving", isLeaving);
    setAttr(node, `data-${on}`, entity.id);
    draw(entity);
    bar.show(isLeaving ? undefined : entity);
    // The list itself shows the outcome for an entity that is gone.
    beside.show(isLeaving ? "" : `${on}/${entity.id}`, entity);
  });
  return node;
}

/** @param {World} world @param {any} _slot */
export function makeSlot(world, _slot) {
  const head = h("p.row");
  const users = h("p.small");
  const waits = h("p.small");
  const paint = once();
  return row(world, "slot", [head, users, waits], (slot) => {
    const waiting = waitingForSlot(/** @type {any[]} */ (world.store.all("deferred")), slot.slot);
    if (paint.isSame(world, slot, waiting)) return;
    const isFull = slot.capacity !== null && slot.used >= slot.capacity;
    const state = slot.capacity === 0 ? say.closed : say.full;
    setChildren(head, [
      h("strong.mono", words(slot.slot)),
      h("span.quiet", slot.capacity === null ? say.usedFree(slot.used) : say.used(slot.used, slot.capacity)),
      isFull ? h("span.chip", { "data-tone": "warn" }, state) : null,
    ]);
    show(users, (slot.holders ?? []).length > 0);
    setChildren(users, [
      say.usedBy,
      ...separated((slot.holders ?? []).map((/** @type {any} */ one) => user(world, one))),
    ]);
    drawWaits(world, waits, say.slotWaits, waiting);
  });
}

/** @param {World} world @param {{holder: string, lease_expires_at: string, thread_id?: string | null}} one */
function user({ names }, { holder, lease_expires_at, thread_id }) {
  const end = ms(lease_expires_at);
  return h(
    "span",
    names.member(holder),
    thread_id ? h("span", " (", names.thread(thread_id), ")") : null,
    end === null ? null : h("span.quiet", " ", names.time(end)),
  );
}

/** @param {World} world @param {any} _pause */
export function makePause(world, _pause) {
  const head = h("p.row");
  const reason = h("p");
  const by = h("p.small.quiet");
  const waits = h("p.small");
  const paint = once();
  return row(world, "pause", [head, reason, by, waits], (pause) => {
    const at = ms(pause.paused_at);
    const since = at === null ? "" : relative(at, world.now());
    const waiting = waitingForRepo(/** @type {any[]} */ (world.store.all("deferred")), pause.repo);
    if (paint.isSame(world, pause, waiting, since)) return;
    setChildren(head, [h("strong.mono", words(pause.repo))]);
    show(reason, Boolean(pause.reason));
    setChildren(reason, [words(pause.reason)]);
    setChildren(by, [say.pausedBy, world.names.member(pause.paused_by), " ", since]);
    drawWaits(world, waits, say.pauseWaits, waiting);
  });
}

/** @param {World} world @param {HTMLElement} node @param {string} label @param {string[]} ids */
function drawWaits(world, node, label, ids) {
  show(node, ids.length > 0);
  const named = ids.slice(0, NAMED).map((id) => h("span", { "data-waits": id }, world.names.thread(id)));
  const rest = ids.length - named.length;
  setChildren(node, [label, ...separated(named), rest > 0 ? say.andMore(rest) : null]);
}

/** @param {Node[]} nodes @returns {(Node | string)[]} */
const separated = (nodes) => nodes.flatMap((node, at) => (at === 0 ? [node] : [", ", node]));

/** Creates a check whether the data of a row is unchanged since the last call. */
function once() {
  let drawn = "";
  return {
    /** @param {World} world @param {any} entity @param {string[]} waiting @param {string} [more] */
    isSame({ store }, entity, waiting, more = "") {
      const titles = waiting.map((id) => `${id} ${store.get("thread", id)?.title}`);
      const now = [
        JSON.stringify(entity),
        store.count("member"),
        store.count("thread"),
        more,
        ...titles,
      ].join("\n");
      const isSame = now === drawn;
      drawn = now;
      return isSame;
    },
  };
}
