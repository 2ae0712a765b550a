// Requirements that a task must still meet before it can close, each with the actions that meet it.
//
// Guarantees: the requirements are those of the server, and none is left only when the server reports so;
// each blocking item is named, with its actions and their outcomes. Not here: closing, which is an action of
// the task.

import { canAnswer } from "../pure/lanes.js";
import { oneLine } from "../pure/line.js";
import { closeNeeds } from "../pure/why.js";
import { closes, parts as say } from "../strings/en.js";
import { actions, actionsOn } from "../actions.js";
import { aboutOf, actionButton } from "../act.js";
import { toldBeside } from "../told.js";
import { button, h, link, setText, words } from "../view/node.js";

/** @typedef {import("../world.js").World} World */
/** @typedef {ReturnType<typeof actionButton>} ActionButton */
/** @typedef {{entity: any, name: Node | null}} Thing `name`: label of the item within its line */

/** Maximum number of items that a line names. */
const MOST = 5;
/** Maximum number of characters of an item's text in its label. */
const WORDS = 80;

/**
 * @param {HTMLElement} place
 * @param {World} world
 * @returns {import("../panels.js").OpenPanel}
 */
export function open(place, world) {
  const sum = h("p.quiet");
  const list = h("ul.checklist.stack.tight");
  const told = h("div");
  const beside = toldBeside(world, told);
  place.append(sum, list, told);
  let drawn = "";
  /** @type {any} */
  let thread;
  /** @type {ActionButton[]} */
  let buttons = [];
  /** Keys of the entities that the buttons act on. @type {Set<string>} */
  let abouts = new Set();

  /** @param {import("../actions.js").Action} action @param {any} entity */
  function buttonFor(action, entity) {
    const made = actionButton(world, action, () => entity);
    buttons.push(made);
    if (action.on !== "thread") abouts.add(aboutOf(action, entity));
    return made.node;
  }

  /**
   * Creates the button for the action on the task itself that meets a requirement.
   *
   * @param {string | null} op
   */
  function onThread(op) {
    const action = actions.find((one) => one.op === op && one.on === "thread");
    return action?.when(thread, world) ? [buttonFor(action, thread)] : [];
  }

  /** @param {string} condition @param {string[]} ids @param {string | null} op */
  function things(condition, ids, op) {
    const on = ON[condition];
    if (!on) return [];
    return ids.slice(0, MOST).flatMap((id) => {
      const thing = THINGS[on](world, id, thread);
      const offered = thing ? actionsOn(on, thing.entity, world).filter((action) => action.op === op) : [];
      const made = offered.map((action) => buttonFor(action, thing?.entity));
      return made.length ? [h("div.row", h("span.grow", thing?.name), ...made)] : [];
    });
  }

  /** @param {ReturnType<typeof closeNeeds>[number]} need */
  function line({ condition, ids, op, detail }) {
    const named = things(condition, ids, op);
    const answers = onThread(op);
    const links = ids
      .slice(0, MOST)
      .filter((id) => world.store.get("thread", id))
      .map((id) => world.names.thread(id));
    const isAnswered = named.length + answers.length > 0;
    return h(
      "li.stack.tight",
      { "data-close-needs": condition },
      h(
        "div.row",
        h("span.grow", closes[condition]?.(ids.length) ?? detail, ...links.flatMap((node) => [" ", node])),
        ...answers,
        isAnswered ? null : button(say.show, () => showPart(condition), { class: "link" }),
      ),
      ...named,
    );
  }

  /** Returns the LSNs of the entities that the lines show. @param {any[]} refusals */
  const known = (refusals) =>
    refusals.flatMap(({ condition, ids }) => {
      const on = ON[condition];
      return on ? ids.slice(0, MOST).map((/** @type {string} */ id) => THINGS[on](world, id, thread)?.entity.of) : [];
    });

  return {
    show(now) {
      thread = now;
      const refusals = world.store.get("context", thread.id)?.close_refusals;
      const state = JSON.stringify([refusals ?? null, thread.of, known(refusals ?? [])]);
      if (state !== drawn) {
        drawn = state;
        buttons = [];
        abouts = new Set();
        const needs = closeNeeds(refusals ?? []);
        setText(sum, refusals ? (needs.length ? say.needed(needs.length) : say.ready) : "");
        list.replaceChildren(...needs.map(line));
      }
      for (const { update } of buttons) update();
      beside.show((about) => abouts.has(about), thread);
    },
  };
}

/**
 * Kind of the ids in a line, for requirements whose items have actions of their own.
 *
 * @type {Record<string, "finding" | "gate" | "relation">}
 */
const ON = { findings: "finding", "approval-gate": "gate", refutes: "relation" };

/** @type {Record<"finding" | "gate" | "relation", (world: World, id: string, thread: any) => Thing | null>} */
const THINGS = {
  finding({ store }, id, thread) {
    for (const { findings, of } of store.all("review")) {
      const found = findings?.find((/** @type {any} */ one) => one.id === id);
      if (!found) continue;
      return {
        entity: { ...found, of, thread_id: thread.id },
        name: words(found.body ? oneLine(found.body, WORDS) : (found.path ?? "")),
      };
    }
    return null;
  },
  /** Returns a gate that the user may decide. Other gates show the reason in their own panel. */
  gate({ store, me }, id) {
    const gate = /** @type {any} */ (store.get("gate", id));
    return gate && canAnswer(gate, me) === "yes" ? { entity: gate, name: words(oneLine(gate.question, WORDS)) } : null;
  },
  /** Returns a relation, labelled with the text of the refuted message. */
  relation({ store }, id) {
    const relation = store.get("relation", id);
    const message = store.get("message", relation?.to_id);
    const name = message ? words(oneLine(message.body ?? "", WORDS)) : null;
    return {
      entity: relation ?? { id },
      name: relation?.to_id ? link(`#m-${relation.to_id}`, {}, name ?? say.show) : null,
    };
  },
};

/** Panel that shows the items of a requirement. @type {Record<string, string>} */
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
