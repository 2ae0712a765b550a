// Claim of a task: its holder and its lease, or the reasons why it is not claimed, and what the user can do.
//
// Guarantees: the lease counts down by the server's clock; when it runs out, the server is asked for the
// outcome; each obstacle is one sentence with its remedy. Not here: the rules (pure/why.js).

import { exceededOf, leaseOf } from "../cards.js";
import { isDone, isLive, isUnacknowledged } from "../pure/lanes.js";
import { ms } from "../pure/clock.js";
import { isFreeForSure, whyOf } from "../pure/why.js";
import { andMore, parts as say, sentence, states } from "../strings/en.js";
import { actionBar } from "../act.js";
import { toldBeside } from "../told.js";
import { h, setAttr, setChildren, setText, show } from "../view/node.js";
import { nodesOf } from "../view/parts.js";

const SHOWN = 3;

/**
 * @param {HTMLElement} place
 * @param {import("../world.js").World} world
 * @returns {import("../panels.js").OpenPanel}
 */
export function open(place, world) {
  const holder = h("span");
  const chip = h("span.chip");
  const left = h("span.left");
  const until = h("span.quiet");
  const held = h("p.row", h("span", say.heldBy, holder), chip, left, until);
  const bar = h("progress.bar", { max: 1, "aria-hidden": "true" });
  const why = h("div.stack.tight");
  const waiting = h("p.told.small", { hidden: true }, say.waiting);
  const buttons = h("div.row");
  const told = h("div");
  const actions = actionBar(world, "thread", buttons);
  const beside = toldBeside(world, told);
  place.append(h("div.stack.claim-state", held, bar, why, waiting), buttons, told);
  let asked = "";

  /** @param {any} thread */
  function showHeld(thread) {
    const isHeld = isLive(thread);
    show(held, isHeld);
    show(bar, isHeld);
    if (!isHeld) return;
    const lease = leaseOf(world, thread);
    setChildren(holder, [world.names.member(thread.assignee_id)]);
    const alarm = /** @type {any} */ (world.store.get("alarm", thread.id));
    const isLate = isUnacknowledged(thread, alarm);
    setText(chip, thread.acknowledged_at ? say.acknowledged : isLate ? say.late : say.noWord);
    setAttr(chip, "data-tone", thread.acknowledged_at ? "ok" : isLate ? "bad" : "warn");
    setText(left, lease?.text);
    setAttr(left, "data-left", lease?.state);
    const end = ms(thread.assignment_expires_at);
    setChildren(until, end === null ? [] : ["(", ...nodesOf([{ time: end }], world.names), ")"]);
    const share = lease?.share ?? null;
    show(bar, share !== null);
    setAttr(bar, "value", share?.toFixed(2));
    setAttr(bar, "data-tone", lease?.state === "plenty" ? null : lease?.state === "amber" ? "warn" : "bad");
    if (lease?.state === "due") ask(thread);
  }

  /**
   * Reads the task again every 2 seconds after its lease is due, until the server reports the outcome.
   *
   * @param {any} thread
   */
  function ask(thread) {
    const now = `${thread.assignment_expires_at} ${Math.floor(performance.now() / 2_000)}`;
    if (asked === now) return;
    asked = now;
    world.reads.again(`thread/${thread.id}`);
  }

  /** @param {any} thread */
  function showWhy(thread) {
    const { store } = world;
    const whys = whyOf(thread, {
      obstacles: store.get("deferred", thread.id)?.obstacles,
      waits: store.get("dependencies", thread.id)?.items,
      archived: store.get("channel", thread.channel_id)?.archived,
      exceeded: exceededOf(world, thread),
    });
    const isFree = whys.length === 0 && !isLive(thread);
    setAttr(why, "data-why", isLive(thread) ? null : (whys[0]?.code ?? (isFree ? stateOf(thread) : null)));
    const lines = whys.slice(0, SHOWN).map((one) => h("p", ...nodesOf(sentence(one), world.names)));
    const rest = whys.length - lines.length;
    if (rest > 0) lines.push(h("p.quiet.small", andMore(rest)));
    if (isFree) lines.push(h("p", freeText(thread)));
    why.replaceChildren(...lines);
  }

  /** @param {any} thread */
  const stateOf = (thread) => (isDone(thread) ? "done" : thread.state === "in_review" ? "in-review" : "free");
  /** @param {any} thread */
  function freeText(thread) {
    if (isDone(thread)) return say.done((thread.cancelled ? states.cancelled : states[thread.state]) ?? "");
    if (thread.state === "in_review") return say.inReview;
    return isFreeForSure(thread, world.store.get("list", "deferred")?.isWhole !== false) ? say.free : say.freeAsKnown;
  }

  let drawn = "";
  return {
    show(thread, changes) {
      showHeld(thread);
      // The sentences contain links, so they are redrawn only after a change.
      const now = `${thread.of} ${world.store.get("deferred", thread.id)?.of} ${world.store.get("dependencies", thread.id)?.of}`;
      if (now !== drawn || changes?.dirty.size) showWhy(thread);
      drawn = now;
      show(waiting, world.waits.has(thread.id));
      actions.show(thread);
      beside.show(`thread/${thread.id}`, thread);
    },
  };
}
