// Shows the outcome of the user's writes beside their entity: done with its event, unconfirmed, or refused.
//
// Guarantees: a refusal says who or what blocks the action, until when, and what the user can do now; it
// stays until it is dismissed or retried. Not here: sending.

import { actionOf } from "./actions.js";
import { begin, send } from "./act.js";
import { hrefTo } from "./names.js";
import { acting as say, actionNames, problemParts, waysOut, ways } from "./strings/en.js";
import { button, h, keyed, link, setChildren } from "./view/node.js";
import { focusAbove } from "./view/focus.js";
import { nodesOf } from "./view/parts.js";

/** @typedef {import("./world.js").World} World */
/** @typedef {import("./net/outbox.js").Write} Write */

/**
 * @param {World} world
 * @param {HTMLElement} place
 * @param {{most?: number, isNamed?: boolean}} [how] `most`: show only this many of the latest writes;
 * `isNamed`: prefix each write with its task.
 */
export function toldBeside(world, place, { most = Infinity, isNamed = false } = {}) {
  place.classList.add("stack", "tight", "told-beside");
  return {
    /**
     * @param {string | ((about: string) => boolean)} about A key, or a predicate for keys of entities.
     * @param {any} [entity] If absent, each write uses its own task.
     */
    show(about, entity) {
      const isMeant = typeof about === "string" ? (/** @type {string} */ one) => one === about : about;
      const writes = world.outbox.all().filter(({ about: one, state }) => isMeant(one) && state !== "asking");
      const hasFocus = place.contains(document.activeElement);
      keyed(place, writes.slice(-most), {
        key: ({ id, state, lsn }) => `${id} ${state} ${lsn}`,
        make(write) {
          const node = make(world, write, entity ?? threadOf(world, write));
          if (isNamed) node.prepend(world.names.thread(threadId(write)), " · ");
          return node;
        },
        update: (node, write) => rename(world, node, write),
      });
      if (!hasFocus || place.contains(document.activeElement)) return;
      const next = place.querySelector("button");
      if (next) next.focus();
      else focusAbove(place);
    },
  };
}

/** @param {Write} write */
const threadId = ({ about }) => about.slice("thread/".length);

/** @param {World} world @param {Write} write */
const threadOf = (world, write) => world.store.get("thread", threadId(write)) ?? { id: threadId(write) };

/** Number of known names when a refusal was written. @type {WeakMap<Element, number>} */
const worded = new WeakMap();

/**
 * Replaces ids in a refusal by names once the names are known.
 *
 * @param {World} world
 * @param {HTMLElement} node
 * @param {Write} write
 */
function rename(world, node, write) {
  const words = node.querySelector("p[data-words]");
  const known = world.store.count("thread") + world.store.count("member");
  if (!words || !write.problem || worded.get(words) === known) return;
  worded.set(words, known);
  setChildren(words, wordsOf(world, write));
}

/** @param {World} world @param {Write} write */
function wordsOf(world, write) {
  const { action, state, problem } = write;
  const name = actionNames[action] ?? action;
  if (state === "not-sent" || !problem) return [write.letter.left ? say.notSent(name) : say.untold(name)];
  return [say.refused(name), ...nodesOf(problemParts(problem), world.names)];
}

/** @param {World} world @param {Write} write @param {any} entity */
function make(world, write, entity) {
  const name = actionNames[write.action] ?? write.action;
  // An action without an event has no receipt.
  if (write.state === "done") return done(name, actionOf(write.action)?.leaves ? write.lsn : 0);
  if (write.state === "unknown") {
    const dismiss = button(say.dismiss, () => world.outbox.dismiss(write.id), { class: "link" });
    return h("p.told.warn", { role: "status" }, say.unknown(name), " ", dismiss);
  }
  return refused(world, write, entity);
}

/** @param {string} name @param {number} lsn Position of its event; 0: it has none. */
function done(name, lsn) {
  const href = lsn ? hrefTo("log", {}, `#${lsn}`) : null;
  const receipt = href ? link(href, {}, say.receipt(lsn)) : say.receipt(lsn);
  return h(
    "p.told.small",
    { "data-event": lsn || null },
    say.done(name),
    " ",
    lsn ? h("span", "(", receipt, ")") : "",
  );
}

/** @param {World} world @param {Write} write @param {any} entity */
function refused(world, write, entity) {
  const problem = /** @type {import("./net/ask.js").Problem} */ (write.problem);
  const isUnsent = write.state === "not-sent";
  const again = write.isOnce ? [] : isUnsent ? ["try-again"] : waysOut(problem);
  return h(
    "div.problem",
    { role: "alert", "data-problem": problem.code, "data-write": write.id },
    h("p", { "data-words": "" }, ...wordsOf(world, write)),
    h(
      "div.row",
      ...again.map((way) => wayOut(world, /** @type {keyof typeof ways} */ (way), write, entity, isUnsent)),
      button(say.dismiss, () => world.outbox.dismiss(write.id), { class: "link" }),
    ),
  );
}

/**
 * @param {World} world
 * @param {keyof typeof ways} way
 * @param {Write} write
 * @param {any} entity
 * @param {boolean} isUnsent
 */
function wayOut(world, way, write, entity, isUnsent) {
  const label = isUnsent ? say.sendAgain : ways[way];
  return button(label, () => WAYS[way](world, write, entity), { class: "link", "data-way": way });
}

/** @type {Record<keyof typeof ways, (world: World, write: Write, entity: any) => void>} */
const WAYS = {
  wait(world, write, entity) {
    world.waits.add(entity.id);
    world.outbox.dismiss(write.id);
  },
  "ask-holder": (world, write, entity) => askHolder(world, write, entity),
  narrow: (world, _write, entity) => start(world, "set_thread_footprint", entity),
  "read-again"(world, write, entity) {
    world.reads.again(write.about);
    for (const kind of ["thread", "context"]) world.reads.again(`${kind}/${entity.id}`);
    world.outbox.dismiss(write.id);
  },
  "try-again"(world, write, entity) {
    const action = actionOf(write.action);
    if (!action) return void world.outbox.again(write.id);
    world.outbox.dismiss(write.id);
    // A secret is shown only by the original form, and a typed token is not stored.
    if (action.hasSecret || action.asksToken) begin(world, action, entity);
    else void send(world, action, entity, write.input);
  },
  requeue: (world, _write, entity) => start(world, "requeue_dead_letter", entity),
  raise: (world, _write, entity) => start(world, "update_thread_budget", entity),
};

/** @param {World} world @param {string} id @param {any} entity */
function start(world, id, entity) {
  const action = actionOf(id);
  if (action) begin(world, action, entity);
}

/**
 * Begins a message to the member who blocks the action, in that member's task if it is known.
 *
 * @param {World} world
 * @param {Write} write
 * @param {any} entity
 */
function askHolder(world, { problem }, entity) {
  const { conflicts = [], holder } = problem?.members ?? {};
  const first = conflicts[0] ?? { holder, thread_id: entity.id };
  askMember(world, first.holder, first.thread_id ?? entity.id);
}

/**
 * Begins a message to a member in a task.
 *
 * @param {World} world
 * @param {string | null | undefined} member
 * @param {string} thread
 */
export function askMember(world, member, thread) {
  const handle = world.store.get("member", member)?.handle;
  const draft = world.drafts.get(`thread/${thread}`);
  if (handle && !draft.includes(`@${handle}`)) world.drafts.set(`thread/${thread}`, `@${handle} ${draft}`);
  const href = hrefTo("task", { id: thread }, "#say");
  if (href) world.go(href);
}
