// What a close of a task still needs, line by line, each with what answers it.
//
// Promises: the lines are those of the server; nothing is missing only when it says so. Leaves out: closing,
// which stands among the actions of the task.

import { closeNeeds } from "../pure/why.js";
import { closes, parts as say } from "../strings/en.js";
import { actions } from "../actions.js";
import { actionButton } from "../act.js";
import { button, h, setText } from "../view/node.js";

/** So many things of a line are named; the rest is counted. */
const MOST = 5;

/**
 * @param {HTMLElement} place
 * @param {import("../world.js").World} world
 * @returns {import("../panels.js").OpenPanel}
 */
export function open(place, world) {
  const sum = h("p.quiet");
  const list = h("ul.checklist.stack.tight");
  place.append(sum, list);
  let drawn = "";
  /** @type {any} */
  let thread;
  /** @type {ReturnType<typeof actionButton>[]} */
  let buttons = [];

  /**
   * What answers a line: an action on the task, or on each thing that is in the way.
   *
   * @param {string | null} op
   * @param {string[]} ids
   */
  function answersOf(op, ids) {
    const action = actions.find((one) => one.op === op && (one.on === "relation" || one.on === "thread"));
    if (!action) return [];
    if (action.on === "relation")
      return ids.slice(0, MOST).map((id) => actionButton(world, action, () => ({ id })));
    return action.when(thread, world) ? [actionButton(world, action, () => thread)] : [];
  }

  /** @param {ReturnType<typeof closeNeeds>[number]} need */
  function line({ condition, ids, op, detail }) {
    const answers = answersOf(op, ids);
    buttons.push(...answers);
    const links = ids
      .slice(0, MOST)
      .filter((id) => world.store.get("thread", id))
      .map((id) => world.names.thread(id));
    return h(
      "li.row",
      { "data-close-needs": condition },
      h("span.grow", closes[condition]?.(ids.length) ?? detail, ...links.flatMap((node) => [" ", node])),
      ...(answers.length
        ? answers.map(({ node }) => node)
        : [button(say.show, () => showPart(condition), { class: "link" })]),
    );
  }

  return {
    show(now) {
      thread = now;
      const refusals = world.store.get("context", thread.id)?.close_refusals;
      const state = JSON.stringify(refusals ?? null) + thread.of;
      if (state !== drawn) {
        drawn = state;
        buttons = [];
        const needs = closeNeeds(refusals ?? []);
        setText(sum, refusals ? (needs.length ? say.needed(needs.length) : say.ready) : "");
        list.replaceChildren(...needs.map(line));
      }
      for (const { update } of buttons) update();
    },
  };
}

/** Where what is missing stands. @type {Record<string, string>} */
const PARTS = {
  findings: "reviews",
  approvals: "reviews",
  "land-gate": "reviews",
  "approval-gate": "gates",
  children: "kin",
};

/** @param {string} condition */
function showPart(condition) {
  const part = document.querySelector(`[data-panel="${PARTS[condition] ?? "claim"}"]`);
  if (part instanceof HTMLDetailsElement) part.open = true;
  part?.scrollIntoView({ block: "start" });
  const first = part?.querySelector("button, summary");
  if (first instanceof HTMLElement) first.focus({ preventScroll: true });
}
