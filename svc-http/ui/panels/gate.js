// Approval request, answered in place: in a task, on Now, in the inbox, or on the page of its link.
//
// Guarantees: the first press arms the button, the second sends; a session without the capability asks for a
// token, empties its field before sending it once, and stores it nowhere; a request that the user may not
// decide names people who may, and can offer a link for them. Not here: which approvals are shown.

import { canAnswer, canSee } from "../pure/lanes.js";
import { list as listOf } from "../pure/format.js";
import { ms } from "../pure/clock.js";
import { actionNames, cannotAnswer, parts as say } from "../strings/en.js";
import { actionOf } from "../actions.js";
import { actionBar, actionButton, send } from "../act.js";
import { copied } from "../later.js";
import { marked } from "../marked.js";
import { hrefTo } from "../names.js";
import { toldBeside } from "../told.js";
import { h, setAttr, setChildren, setText, show } from "../view/node.js";
import { nodesOf } from "../view/parts.js";

/** @typedef {import("../world.js").World} World */
/** @typedef {ReturnType<typeof openGate>} OpenGate */

/** Maximum number of possible approvers that are named. */
const NAMED = 5;

/**
 * @param {World} world
 * @param {string} id
 */
export function openGate(world, id) {
  const gate = () => world.store.get("gate", id);
  const head = h("p.row");
  const question = h("div");
  /** Question that is drawn. */
  let asked = "";
  const notes = h("p.quiet.small");
  const others = h("p.small", { hidden: true });
  const buttons = h("div.row");
  const told = h("div");
  const token = tokenForm(world, gate);
  const handed = linkMaker(world, gate);
  const bar = actionBar(world, "gate", buttons);
  const beside = toldBeside(world, told);
  const node = h(
    "article.gate.stack.tight",
    { "data-gate": id },
    head,
    question,
    notes,
    others,
    buttons,
    token.node,
    handed.node,
    told,
  );

  /** @param {any} now @param {ReturnType<typeof canAnswer>} standing */
  function showHead(now, standing) {
    const isOpen = now.state === "pending";
    setAttr(node, "data-state", now.state);
    setChildren(head, [
      h("strong", world.names.member(now.requested_by), say.asks),
      h(
        "span.chip",
        { "data-tone": isOpen ? "review" : null },
        say.decided[/** @type {"pending"} */ (now.state)],
      ),
      now.resolved_by ? world.names.member(now.resolved_by) : null,
    ]);
    if (asked !== now.question) {
      asked = now.question;
      // The question is never folded, because the user decides on it.
      const of = { of: `gate/${id}`, channel: now.channel_id, room: null };
      question.replaceChildren(marked(world, asked, of));
    }
    setChildren(notes, nodesOf(notesOf(now, standing, world.grants), world.names));
    show(notes, notes.hasChildNodes());
  }

  return {
    node,
    show() {
      const now = gate();
      if (!now) return;
      const standing = canAnswer(/** @type {any} */ (now), world.me);
      const isOpen = now.state === "pending";
      showHead(now, standing);
      const who = isOpen && standing !== "yes" && standing !== "capability" ? othersOf(world, now) : "";
      show(others, who !== "");
      setText(others, who);
      show(buttons, standing === "yes" || standing === "own");
      token.show(isOpen && standing === "capability");
      handed.show(isOpen && (standing === "own" ? !world.me.mayGrant : standing !== "yes"));
      bar.show(now);
      beside.show(`gate/${id}`, now);
    },
  };
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
    isOpen && end !== null ? [say.untilThen, { time: end }] : [],
    isOpen && gate.needs_person ? [say.needsPerson] : [],
    isOpen && gate.blocks_close ? [say.blocksClose] : [],
    isOpen && standing !== "yes" && standing !== "needs-person" ? [cannotAnswer[standing](grants)] : [],
  ].filter((parts) => parts.length > 0);
  return notes.flatMap((parts, at) => (at === 0 ? parts : [" · ", ...parts]));
}

/**
 * Names people who may be able to decide the request.
 *
 * The capabilities of other members are not known, so all people who can see the channel are candidates.
 *
 * @param {World} world
 * @param {any} gate
 */
function othersOf({ store, grants, names: named }, gate) {
  const channel = store.get("channel", gate.channel_id);
  const inside = channel?.private ? named.insideOf(gate.channel_id) : new Set();
  const people = store
    .all("member")
    .filter((one) => one.kind === "human" && one.id !== gate.requested_by && canSee(one, channel, inside));
  const names = people.slice(0, NAMED).map(({ handle }) => `@${handle}`);
  const of = say.whoElse(grants, gate.needs_person);
  return names.length ? say.whoElseNamed(of, listOf(names), people.length - names.length) : of;
}

/**
 * Creates a form that decides with a token typed for this one request.
 *
 * @param {World} world
 * @param {() => any} gate
 */
function tokenForm(world, gate) {
  const input = h("input", {
    type: "password",
    name: "token",
    autocomplete: "one-time-code",
    spellcheck: "false",
  });
  const buttons = ["accept", "decline"].map((decision) => {
    const action = /** @type {import("../actions.js").Action} */ (actionOf(`approval_decide ${decision}`));
    /** @param {any} now */
    const decide = (now) => {
      const token = input.value.trim();
      input.value = "";
      if (token) void send(world, action, now, {}, { token });
      else input.focus();
    };
    const made = actionButton(world, action, gate, { begin: decide });
    made.node.dataset.decision = decision;
    return made;
  });
  const node = h(
    "div.stack.tight",
    { hidden: true },
    h("label.field", h("span.label", say.tokenLabel), input),
    h("p.quiet.small", say.tokenHint),
    h("div.row", ...buttons.map((made) => made.node)),
  );
  return {
    node,
    show(/** @type {boolean} */ isShown) {
      show(node, isShown);
      if (!isShown) input.value = "";
      for (const { update } of buttons) update();
    },
  };
}

/**
 * Creates the button that makes a link for a member who may decide.
 *
 * @param {World} world
 * @param {() => any} gate
 */
function linkMaker(world, gate) {
  const place = h("div");
  const action = /** @type {import("../actions.js").Action} */ (actionOf("approval_link"));
  const made = actionButton(world, action, gate, {
    begin: async (now) => {
      const write = await send(world, action, now);
      // If a person must decide, the error contains the link.
      const link = write.body?.link ?? write.problem?.members.link;
      if (!link) return;
      world.outbox.dismiss(write.id);
      // A server without a configured address omits the proxy's prefix, which the page knows.
      const path = link.url.startsWith("/") && hrefTo("approval", { link: link.url.split("/").at(-1) });
      const address = new URL(path || link.url, location.origin).href;
      const until = ms(link.expires_at);
      const text = /** @type {Node | undefined} */ (await copied(address, "link")) ?? address;
      setChildren(place, [
        h("p.small", ...nodesOf([say.linkMade, until === null ? "" : { time: until }], world.names)),
        text,
      ]);
    },
    label: actionNames.approval_link,
  });
  const node = h("div.stack.tight", { hidden: true }, h("div.row", made.node), place);
  return {
    node,
    show(/** @type {boolean} */ isShown) {
      show(node, isShown);
      made.update();
    },
  };
}
