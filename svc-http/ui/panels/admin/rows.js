// List of administered items, each with its facts, its state and its actions.
//
// Guarantees: ended items are shown on request; rows do not move while the user interacts with them; a
// control without its capability is shown, and names the capability. Not here: what the items are.

import { ms } from "../../pure/clock.js";
import { dateTime } from "../../pure/format.js";
import { admin as say } from "../../strings/en.js";
import { actionBar } from "../../act.js";
import { toldBeside } from "../../told.js";
import { h, setAttr, setChildren, show, words } from "../../view/node.js";
import { createHeld } from "../../view/held.js";

/** @typedef {import("../../world.js").World} World */
/** @typedef {import("../../actions.js").Action} Action */
/** @typedef {{text: string, tone: string | null}} Chip */
/**
 * @typedef {{
 *   on: Action["on"],
 *   label: string,
 *   none: string,
 *   title: (one: any) => (Node | string)[],
 *   chips?: (one: any) => Chip[],
 *   facts: (one: any) => [string, ...(Node | string)[]][],
 *   isOver?: (one: any) => boolean,
 *   endedLabel?: string,
 *   also?: {on: Action["on"], of: (one: any) => any},
 *   marks?: Record<string, string>,
 * }} Rows `also`: a related item whose actions the row offers too; `marks`: attributes of a row, each with
 * the field that contains its value.
 */

const MOST = 50;

/** @param {World} world @param {Rows} rows */
export function openRows(world, rows) {
  const { on, label, none, title, chips = () => [], facts, isOver, also, marks = {} } = rows;
  const { endedLabel = say.ended } = rows;
  const empty = h("p.quiet", { hidden: true }, none);
  const ended = h("input", { type: "checkbox", name: "ended" });
  const held = createHeld({
    label,
    waits: say.waits,
    earlier: say.more,
    most: MOST,
    key: (/** @type {any} */ one) => one.id,
    make,
    // A row that the list keeps although its item has ended shows the ended item.
    update: (node, one) => updates.get(node)?.(all?.find(({ id }) => id === one.id) ?? one),
  });
  /** @type {any[] | null} */
  let all = null;
  /** @type {WeakMap<HTMLElement, (one: any) => void>} */
  const updates = new WeakMap();
  ended.addEventListener("change", draw);

  function make() {
    const head = h("h3.grow");
    const state = h("span.row.tight");
    const list = h("dl.facts");
    const own = offers(on);
    const other = also && offers(also.on);
    const offered = [own, ...(other ? [other] : [])].flatMap(({ nodes }) => nodes);
    const body = h("div.panel-body.stack.tight", h("div.row", head, state), list, ...offered);
    const node = h("li.panel", body);
    let drawn = "";
    /** @type {unknown} */
    let last = null;
    updates.set(node, (one) => {
      const second = also?.of(one);
      const counts = [world.store.count("member"), world.store.count("channel")];
      const now = `${counts} ${isOver?.(one)} ${second?.id}`;
      if (last !== one || drawn !== now) {
        [last, drawn] = [one, now];
        for (const [name, field] of Object.entries(marks)) setAttr(node, name, one[field]);
        setChildren(head, title(one));
        setChildren(
          state,
          chips(one).map(({ text, tone }) => h("span.chip", { "data-tone": tone }, text)),
        );
        setChildren(
          list,
          facts(one).flatMap(([name, ...value]) => [h("dt", name), h("dd", ...value)]),
        );
      }
      own.show(one);
      other?.show(second);
    });
    return node;
  }

  /**
   * Creates the buttons for the actions of an item, and a place for their outcomes.
   *
   * @param {Action["on"]} kind
   */
  function offers(kind) {
    const buttons = h("div.row");
    const told = h("div");
    const bar = actionBar(world, kind, buttons);
    const beside = toldBeside(world, told);
    return {
      nodes: [buttons, told],
      /** @param {any} one */
      show(one) {
        bar.show(one);
        if (one) beside.show(`${kind}/${one.id}`, one);
      },
    };
  }

  function draw() {
    const now = (all ?? []).filter((one) => ended.checked || !isOver?.(one));
    show(empty, all !== null && now.length === 0);
    show(choose, Boolean(isOver) && all !== null);
    held.setItems(now);
  }

  const choose = h("label.row.tight", { hidden: true }, ended, h("span", endedLabel));
  return {
    node: h("div.stack", choose, held.root, empty),
    /** @param {any[] | null} items Null if they are not loaded yet. */
    show(items) {
      all = items;
      draw();
    },
    close: held.close,
  };
}

/**
 * Returns a predicate for items that have ended, by the server's clock.
 *
 * @param {World} world
 * @returns {(one: any) => boolean}
 */
export const isOverNow = (world) => (one) => standingOf(world, one) !== null;

/** @param {World} world @param {any} one @returns {Chip | null} */
export function standingOf(world, { revoked_at, released_at, expires_at }) {
  if (revoked_at) return { text: say.revoked, tone: "bad" };
  if (released_at) return { text: say.released, tone: null };
  const end = ms(expires_at);
  return end !== null && end <= world.now() ? { text: say.expired, tone: null } : null;
}

/** @param {string | null | undefined} time */
export const timeText = (time) => dateTime(ms(time) ?? 0);

/**
 * Formats the time and the member of an action.
 *
 * @param {World} world
 * @param {string} time
 * @param {string | null} member
 */
export const doneBy = (world, time, member) => [say.by(timeText(time)), world.names.member(member)];

/** @param {string | null} end @returns {[string, string]} */
export const untilFact = (end) => [say.until, end ? timeText(end) : say.noEnd];

/** @param {string[]} capabilities @returns {[string, Node]} */
export const canFact = (capabilities) => [say.can, h("span.mono", capabilities.join(", "))];

/**
 * Returns text that a member wrote, or a placeholder if there is none.
 *
 * @param {string | null | undefined} text
 * @param {string} none
 */
export const wordsOr = (text, none) => (text ? words(text) : h("span.quiet", none));

/** Creates a list of facts that is redrawn only when its content changes. */
export function factList() {
  const node = h("dl.facts");
  let drawn = "";
  return {
    node,
    /** @param {[string, string][]} facts */
    show(facts) {
      const now = JSON.stringify(facts);
      if (now !== drawn)
        setChildren(
          node,
          facts.flatMap(([name, value]) => [h("dt", name), h("dd", words(value))]),
        );
      drawn = now;
    },
  };
}
