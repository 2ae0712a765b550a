// Builds the texts of a task's card: its holder and lease, why it is not held, and its latest message.
//
// Guarantees: the texts match the data known now, by the server's clock; a card is rebuilt for each draw and
// causes no request. Not here: rendering the card (view/card.js).

import { ms, timeLeft } from "./pure/clock.js";
import { duration, relative } from "./pure/format.js";
import { isDone, isUnacknowledged } from "./pure/lanes.js";
import { oneLine } from "./pure/line.js";
import { shownText } from "./pure/shown.js";
import { isFreeForSure, whyOf } from "./pure/why.js";
import { blocks, card as say, lanes, leases, priorityText, problemParts, states } from "./strings/en.js";
import { nodesOf, plainOf } from "./view/parts.js";
import { hrefTo } from "./names.js";

const SECONDS_BELOW = 180_000;
/** Maximum chips on a card; its accessible name and its menu contain all of them. */
const CHIPS = 2;
/** Maximum characters of the latest message on a card. */
const WORDS = 200;

/** @typedef {import("./world.js").World} World */
/** @typedef {import("./view/card.js").Card} Card */

/**
 * @param {World} world
 * @param {any} thread
 * @param {{lane: import("./pure/lanes.js").Lane | null, group?: string, isChosen?: boolean, isOpen?: boolean, leftFor?: string | null}} how
 * `group`: the value that the lane is grouped by; `isOpen`: the task is shown beside the list; `leftFor`: the
 * lane that the task has moved to, or "" for none, while the card is still kept in its old lane.
 * @returns {Card}
 */
export function cardOf(world, thread, { lane, group = "", isChosen = false, isOpen = false, leftFor = null }) {
  const left = leaseOf(world, thread);
  const chips = chipsOf(world, thread, leftFor);
  const holder = thread.assignee_id ? world.names.memberText(thread.assignee_id) : say.nobody;
  const held = heldOf(world, thread);
  const refused = refusedOf(world, thread);
  const about = refused ?? aboutOf(world, thread, lane);
  const rank = thread.priority === 0 ? null : { text: priorityText(thread.priority) };
  const mark = isChosen ? { text: say.chosen, tone: "accent" } : null;
  const marks = [mark, group ? { text: group, tone: "accent" } : null, held, ...chips].filter((one) => one !== null);
  // A chip that shows where the card has moved takes precedence over the priority.
  const kept = rank && leftFor === null ? [...marks.slice(0, CHIPS - 1), rank] : [...marks, rank];
  const state = lane ? lanes[lane] : (states[thread.state] ?? "");
  const title = shownText(thread.title);
  return {
    id: thread.id,
    href: hrefTo("task", { id: thread.id }),
    name: [title, mark?.text, state, rank?.text, holder, held?.text, left?.text, about, ...chips.map(({ text }) => text)]
      .filter(Boolean)
      .join(", "),
    title,
    holder: isDone(thread) ? "" : holder,
    left,
    about,
    touches: touchesOf(thread),
    chips: kept.filter((chip) => chip !== null).slice(0, CHIPS),
    isChosen,
    isOpen,
    isLeaving: leftFor !== null,
  };
}

/**
 * Returns the time left of a claim, or null if no lease runs.
 *
 * @param {World} world
 * @param {any} thread
 */
export function leaseOf(world, thread) {
  const until = ms(thread.assignment_expires_at);
  if (until === null || !thread.assignee_id || isDone(thread)) return null;
  const now = world.now();
  const { state, share, ms: left } = timeLeft(until, now, world.leaseOf(thread));
  return { text: leases[state](duration(rounded(left))), state, share };
}

/** Rounds to seconds near the end of a lease, and to minutes before that. @param {number} left */
function rounded(left) {
  return left > SECONDS_BELOW ? Math.floor(left / 60_000) * 60_000 : Math.ceil(left / 1_000) * 1_000;
}

/**
 * Returns the text of a refused change, which the card shows until the user dismisses it.
 *
 * @param {World} world
 * @param {any} thread
 */
function refusedOf(world, thread) {
  const problem = world.outbox.about(`thread/${thread.id}`).find(({ state }) => state === "refused")?.problem;
  return problem ? plainOf(nodesOf(problemParts(problem), world.names)) : null;
}

/** @param {World} world @param {any} thread */
function heldOf(world, thread) {
  if (!thread.assignee_id || thread.acknowledged_at || isDone(thread)) return null;
  const alarm = /** @type {any} */ (world.store.get("alarm", thread.id));
  return isUnacknowledged(thread, alarm)
    ? { text: say.unacknowledged, tone: "bad" }
    : { text: say.lateWord, tone: "warn" };
}

/** @param {World} world @param {any} thread @param {import("./pure/lanes.js").Lane | null} lane */
function aboutOf(world, thread, lane) {
  const { store, names } = world;
  if (lane === "blocked") {
    const obstacles = store.get("deferred", thread.id)?.obstacles;
    const why = whyOf(thread, { obstacles, exceeded: exceededOf(world, thread) })[0];
    if (why) return plainOf(nodesOf(blocks[why.code](why), names));
  }
  const isWhole = store.get("list", "deferred")?.isWhole !== false;
  if (lane === "ready" && !isFreeForSure(thread, isWhole)) return say.freeAsKnown;
  const said = store.get("message", world.tasks().latestOf(thread.id));
  if (said && !said.withdrawn && said.body) {
    return say.said(names.memberText(said.author_id), oneLine(said.body, WORDS));
  }
  const made = ms(thread.created_at);
  const channel = names.channel(thread.channel_id).textContent ?? "";
  return made === null ? channel : say.in(channel, relative(made, world.now()));
}

/**
 * Returns the limits that a task exceeded. Those of a dead letter stay, even after they were raised.
 *
 * @param {World} world
 * @param {any} thread
 * @returns {string[] | undefined}
 */
export function exceededOf({ store }, { id, dead }) {
  const letters = dead ? store.all("dead_letter") : [];
  const letter = letters.find(({ thread_id, settled_at }) => thread_id === id && !settled_at);
  return letter?.exceeded ?? store.get("budget", id)?.exceeded;
}

/** @param {any} thread */
function touchesOf({ footprint, required_skills }) {
  const items = footprint?.items.map((/** @type {any} */ { value }) => value).join(" ") ?? "";
  const skills = required_skills.map((/** @type {string} */ skill) => `#${skill}`).join(" ");
  return shownText(
    [footprint ? say.touches(footprint.repo ?? "", items) : "", skills].filter(Boolean).join(" "),
  );
}

/**
 * @param {World} world
 * @param {any} thread
 * @param {string | null} leftFor
 * @returns {import("./view/card.js").Chip[]}
 */
function chipsOf(world, thread, leftFor) {
  const { store } = world;
  const unread = world.tasks().unreadOf(thread.id);
  /** @type {(import("./view/card.js").Chip | null)[]} */
  const chips = [
    refusedOf(world, thread) === null ? null : { text: say.refused, tone: "bad" },
    leftFor === null ? null : { text: leftFor ? say.moved(leftFor) : say.gone, tone: "warn" },
    world.tasks().hasGate(thread.id) ? { text: say.approval, tone: "review" } : null,
    store.get("awaited", thread.id) ? { text: say.review, tone: "review" } : null,
    thread.dead ? { text: say.dead, tone: "bad" } : null,
    thread.exhausted && !thread.dead ? { text: say.exhausted, tone: "warn" } : null,
    thread.cancelled ? { text: say.cancelled } : null,
    thread.has_result && !isDone(thread) ? { text: say.result, tone: "ok" } : null,
    unread > 0 ? { text: say.unread(unread), tone: "accent" } : null,
  ];
  return chips.filter((chip) => chip !== null);
}
