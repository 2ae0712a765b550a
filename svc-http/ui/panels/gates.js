// The approvals that are asked for in a task, answered where they stand.
//
// Promises: the first press arms, the second sends; a session that may not decide asks for a token that may,
// which is sent once beside the session and kept nowhere; one's own request says why one cannot answer it.
// Leaves out: links to approvals.

import { canAnswer } from "../pure/lanes.js";
import { ms } from "../pure/clock.js";
import { actionNames, cannotAnswer, parts as say } from "../strings/en.js";
import { actionOf } from "../actions.js";
import { actionBar, send } from "../act.js";
import { toldBeside } from "../told.js";
import { button, h, keyed, setAttr, setChildren, setText, show } from "../view/node.js";
import { nodesOf } from "../view/parts.js";
import { marked } from "../view/marked.js";

/** @typedef {import("../world.js").World} World */

/**
 * @param {HTMLElement} place
 * @param {World} world
 * @returns {import("../panels.js").OpenPanel}
 */
export function open(place, world) {
  return {
    show(thread) {
      const gates = world.store
        .all("gate")
        .filter((gate) => gate.thread_id === thread.id && gate.question !== undefined)
        .sort(
          (one, other) =>
            Number(other.state === "pending") - Number(one.state === "pending") || other.lsn - one.lsn,
        );
      keyed(place, gates.slice(0, 10), {
        key: ({ id }) => id,
        make: (gate) => make(world, gate),
        update: (node, gate) => updates.get(node)?.(gate),
      });
    },
  };
}

/** @type {WeakMap<HTMLElement, (gate: any) => void>} */
const updates = new WeakMap();

/** @param {World} world @param {any} first */
function make(world, first) {
  let gate = first;
  const head = h("p.row");
  const question = h("div");
  const notes = h("p.quiet.small");
  const buttons = h("div.row");
  const told = h("div");
  const token = tokenForm(world, () => gate);
  const bar = actionBar(world, "gate", buttons);
  const beside = toldBeside(world, told);
  const node = h(
    "article.gate.stack.tight",
    { "data-gate": gate.id },
    head,
    question,
    notes,
    buttons,
    token.node,
    told,
  );

  updates.set(node, (now) => {
    gate = now;
    const standing = canAnswer(gate, world.me);
    const isOpen = gate.state === "pending";
    setAttr(node, "data-state", gate.state);
    setChildren(head, [
      h("strong", world.names.member(gate.requested_by), say.asks),
      h(
        "span.chip",
        { "data-tone": isOpen ? "review" : null },
        say.decided[/** @type {"pending"} */ (gate.state)],
      ),
      gate.resolved_by ? world.names.member(gate.resolved_by) : null,
    ]);
    if (question.dataset.of !== gate.question) {
      question.dataset.of = gate.question;
      question.replaceChildren(marked(gate.question, { names: world.names.marks }));
    }
    setChildren(notes, nodesOf(notesOf(gate, standing, world.grants), world.names));
    show(buttons, standing !== "capability" && (standing === "yes" || standing === "own"));
    token.show(isOpen && standing === "capability");
    bar.show(gate);
    beside.show(`gate/${gate.id}`, gate);
  });
  return node;
}

/**
 * @param {any} gate
 * @param {ReturnType<typeof canAnswer>} standing
 * @param {string} grants
 * @returns {import("../view/parts.js").Part[]}
 */
function notesOf(gate, standing, grants) {
  const end = ms(gate.expires_at);
  const isOpen = gate.state === "pending";
  const notes = [
    isOpen && end !== null ? [{ time: end }] : [],
    isOpen && gate.needs_person ? [say.needsPerson] : [],
    isOpen && gate.blocks_close ? [say.blocksClose] : [],
    isOpen && standing !== "yes" ? [cannotAnswer[standing](grants)] : [],
  ].filter((parts) => parts.length > 0);
  return notes.flatMap((parts, at) => (at === 0 ? parts : [" · ", ...parts]));
}

/** Decides with a token that is typed for this one time. @param {World} world @param {() => any} gate */
function tokenForm(world, gate) {
  const input = h("input", {
    type: "password",
    name: "token",
    autocomplete: "one-time-code",
    spellcheck: "false",
  });
  const decide = (/** @type {string} */ decision) => {
    const action = actionOf(`approval_decide ${decision}`);
    const token = input.value.trim();
    input.value = "";
    if (action && token) void send(world, action, gate(), {}, { token });
    else input.focus();
  };
  const buttons = ["accept", "decline"].map((decision) => {
    const name = actionNames[`approval_decide ${decision}`] ?? decision;
    return button(name, () => decide(decision), {
      "data-action": "approval_decide",
      "data-decision": decision,
    });
  });
  const node = h(
    "div.stack.tight",
    { hidden: true },
    h("label.field", h("span.label", say.tokenLabel), input),
    h("p.quiet.small", say.tokenHint),
    h("div.row", ...buttons),
  );
  return { node, show: (/** @type {boolean} */ isShown) => show(node, isShown) };
}
