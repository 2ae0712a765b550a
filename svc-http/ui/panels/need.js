// Row for one item that needs the user's attention: its reason, its age, and the actions that settle it.
//
// Guarantees: the row changes in place; a settled item is labelled until the list moves on. Not here: the
// list of items and their order (pure/rank.js).

import { dateTime, percent, relative } from "../pure/format.js";
import { oneLine } from "../pure/line.js";
import { budgetShare } from "../pure/rank.js";
import { actionOf } from "../actions.js";
import { actionBar, actionButton } from "../act.js";
import { hrefTo } from "../names.js";
import { answers, inboxReasons, limits, needs, now as say, parts as partsSay } from "../strings/en.js";
import { askMember, toldBeside } from "../told.js";
import { button, h, link, setAttr, setChildren, setText, show, words } from "../view/node.js";
import { openGate } from "./gate.js";

/** @typedef {import("../world.js").World} World */
/** @typedef {import("../pure/rank.js").Need} Need */
/** @typedef {{about: string, entity: () => any, draw: () => void, nodes: HTMLElement[]}} Inner */

/** @type {Record<string, string>} */
const TONES = {
  gate: "review",
  lapsed: "bad",
  dead: "bad",
  review: "review",
  finding: "bad",
  unacknowledged: "warn",
};

const PREVIEW = 300;

/** @type {WeakMap<HTMLElement, (need: Need, isLeaving: boolean) => void>} */
const updates = new WeakMap();

/** @param {World} world @param {Need} first */
export function makeNeed(world, first) {
  const chip = h("span.chip", { "data-tone": TONES[first.kind] ?? "accent" }, needs[first.kind]);
  const gone = h("span.chip", { hidden: true }, say.gone);
  const title = h("span.need-title");
  const age = h("time.quiet.small.end");
  const told = h("div");
  const beside = toldBeside(world, told);
  const inner = INNER[first.kind](world, first);
  const node = h(
    "li.need.stack.tight",
    { "data-need": first.kind, "data-thread": first.thread_id },
    h("div.row", title, chip, gone, age),
    ...inner.nodes,
    told,
  );
  updates.set(node, (need, isLeaving) => {
    gone.hidden = !isLeaving;
    setAttr(node, "data-leaving", isLeaving);
    showTitle(title, need);
    showAge(need);
    inner.draw();
    // An approval request shows its own outcome.
    if (need.kind !== "gate") beside.show(inner.about, inner.entity());
  });

  /** @param {HTMLElement} place @param {Need} need */
  function showTitle(place, need) {
    const state = `${nameOf(world, need)} ${placeOfNeed(world, need)}`;
    if (place.dataset.of === state) return;
    place.dataset.of = state;
    setChildren(place, [titleOf(world, need)]);
  }

  /** @param {Need} need */
  function showAge({ since }) {
    show(age, since !== null);
    if (since === null) return;
    setText(age, relative(since, world.now()));
    setAttr(age, "datetime", new Date(since).toISOString());
    setAttr(age, "title", dateTime(since));
  }
  return node;
}

/** @param {HTMLElement} node @param {Need} need @param {boolean} isLeaving */
export const updateNeed = (node, need, isLeaving) => updates.get(node)?.(need, isLeaving);

/**
 * Returns the address where the user settles the item: the direct message or the task, at its message if any.
 *
 * @param {World} world
 * @param {Need} need
 */
export function placeOfNeed(world, { id, thread_id, kind, more }) {
  const fragment = more.message_id ? `#m-${more.message_id}` : "";
  const dm = dmOf(world, kind, id);
  if (dm) return hrefTo("dms", {}, `?c=${dm.id}${fragment}`);
  return thread_id ? hrefTo("task", { id: thread_id }, fragment) : null;
}

/**
 * Returns the direct message that a mention belongs to, if any.
 *
 * @param {World} world
 * @param {string} kind
 * @param {string} id
 */
const dmOf = ({ store }, kind, id) =>
  kind === "mention" ? store.get("dm", store.get("inbox", id)?.channel_id) : undefined;

/** @param {World} world @param {Need} need */
function nameOf(world, { kind, id, thread_id }) {
  const dm = dmOf(world, kind, id);
  if (dm) return world.names.participants(dm, world.me.member_id);
  return thread_id ? world.names.threadText(thread_id) : needs[kind];
}

/** @param {World} world @param {Need} need */
function titleOf(world, need) {
  const href = placeOfNeed(world, need);
  const text = words(nameOf(world, need));
  return href ? link(href, { class: "title" }, text) : h("span", text);
}

/** @type {Record<import("../pure/rank.js").NeedKind, (world: World, need: Need) => Inner>} */
const INNER = {
  gate(world, { id }) {
    const gate = openGate(world, id);
    return {
      about: `gate/${id}`,
      entity: () => world.store.get("gate", id),
      draw: gate.show,
      nodes: [gate.node],
    };
  },
  lapsed: (world, need) =>
    onThread(world, need, "claim_thread", ({ id }) => {
      const holder = world.store.get("alarm", id)?.member_id;
      return holder ? [world.names.member(holder), say.lapsed] : [];
    }),
  dead: (world, need) =>
    onThread(world, need, "requeue_dead_letter", () => {
      const exceeded = world.store.get("dead_letter", need.id)?.exceeded ?? [];
      return exceeded.length
        ? [say.exceeded(exceeded.map((/** @type {string} */ one) => limits[one] ?? one))]
        : [];
    }),
  review: (world, need) =>
    onThread(world, need, "submit_review", (thread) =>
      thread.assignee_id ? [say.handedIn, world.names.member(thread.assignee_id)] : [],
    ),
  budget: (world, need) =>
    onThread(world, need, "update_thread_budget", ({ id }) => {
      const budget = world.store.get("budget", id);
      const share = budget ? budgetShare(budget) : null;
      return share === null ? [] : [say.used(percent(share))];
    }),
  unacknowledged,
  finding,
  mention,
};

/**
 * Creates the content of a need that one action on the task settles.
 *
 * @param {World} world
 * @param {Need} need
 * @param {string} id
 * @param {(thread: any) => (Node | string)[]} why
 * @returns {Inner}
 */
function onThread(world, need, id, why) {
  const entity = () => world.store.get("thread", need.thread_id);
  const reason = h("p.grow");
  const action = /** @type {import("../actions.js").Action} */ (actionOf(id));
  const made = actionButton(world, action, entity, { label: answers[need.kind] });
  return {
    about: `thread/${need.thread_id}`,
    entity,
    nodes: [h("div.row", reason, h("span.end", made.node))],
    draw() {
      const thread = entity();
      made.update();
      if (thread) drawOnce(reason, why(thread));
    },
  };
}

/** @type {WeakMap<HTMLElement, string>} */
const drawn = new WeakMap();
/**
 * Replaces the children of a node only if the text changes.
 *
 * @param {HTMLElement} node
 * @param {(Node | string)[]} children
 */
function drawOnce(node, children) {
  const text = children.map((one) => (typeof one === "string" ? one : (one.textContent ?? ""))).join("");
  if (drawn.get(node) === text) return;
  drawn.set(node, text);
  setChildren(node, children);
  node.hidden = text === "";
}

/** @param {World} world @param {Need} need @returns {Inner} */
function unacknowledged(world, need) {
  const why = (/** @type {any} */ thread) =>
    thread.assignee_id ? [world.names.member(thread.assignee_id), say.silent] : [];
  if (need.op === "acknowledge_claim") return onThread(world, need, "acknowledge_claim", why);
  const entity = () => world.store.get("thread", need.thread_id);
  const reason = h("p.grow");
  const ask = () => askMember(world, entity()?.assignee_id, need.thread_id ?? "");
  const press = button(answers.unacknowledged, ask, { class: "primary", "data-action": "post_message" });
  return {
    about: `thread/${need.thread_id}`,
    entity,
    nodes: [h("div.row", reason, h("span.end", press))],
    draw() {
      const thread = entity();
      if (thread) drawOnce(reason, why(thread));
    },
  };
}

/** @param {World} world @param {Need} need @returns {Inner} */
function finding(world, need) {
  const entity = () => {
    const found = world.store
      .get("review", need.more.review_id)
      ?.findings.find((/** @type {any} */ one) => one.id === need.id);
    return found && { ...found, thread_id: need.thread_id };
  };
  const text = h("p.grow");
  const buttons = h("div.row.end");
  const bar = actionBar(world, "finding", buttons);
  return {
    about: `finding/${need.id}`,
    entity,
    nodes: [h("div.row", text, buttons)],
    draw() {
      const found = entity();
      if (!found) return;
      const where = found.path ? h("bdi.mono.quiet", partsSay.line(found.path, found.line), " ") : "";
      drawOnce(text, [where, words(found.body)]);
      bar.show(found);
    },
  };
}

/** @param {World} world @param {Need} need @returns {Inner} */
function mention(world, need) {
  const entity = () => world.store.get("inbox", need.id);
  const text = h("p.grow");
  const action = /** @type {import("../actions.js").Action} */ (actionOf("mark_inbox_read"));
  const mark = actionButton(world, action, entity);
  const href = placeOfNeed(world, need);
  const read = href ? link(href, { class: "button primary" }, answers.mention) : "";
  return {
    about: `inbox/${need.id}`,
    entity,
    nodes: [h("div.row", text, h("span.row.end", read, mark.node))],
    draw() {
      const item = entity();
      mark.update();
      if (!item) return;
      const who = item.actor_id ? world.names.member(item.actor_id) : "";
      const reason = inboxReasons[item.reason] ?? item.reason;
      drawOnce(text, [
        who,
        who ? " " : "",
        h("span.quiet", reason),
        item.preview ? ": " : "",
        words(oneLine(item.preview ?? "", PREVIEW)),
      ]);
    },
  };
}
