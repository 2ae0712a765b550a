// Now: the items that need the user, most urgent first, and in a new workspace the first steps.
//
// Guarantees: nothing moves under the user; `.` goes to the next item from any screen. Not here: the order
// (pure/rank.js) and the content of an item (panels/need.js).

import { number } from "../pure/format.js";
import { createFirstSteps } from "../panels/first-steps.js";
import { makeNeed, updateNeed } from "../panels/need.js";
import { progressOf, showProgress } from "../reading.js";
import { LOOKED_AT, NEEDS } from "../state/needs.js";
import { board as boardSay, now as say } from "../strings/en.js";
import { createHeld } from "../view/held.js";
import { h, setText } from "../view/node.js";
import { listKeys } from "./list-keys.js";

/** @typedef {import("../world.js").World} World */
/** @typedef {import("../pure/rank.js").Need} Need */

const SHOWN = 50;
const TICK = 15_000;

/**
 * @param {HTMLElement} root
 * @param {World} world
 * @param {import("../router.js").Place} place
 * @returns {import("../screens.js").Open}
 */
export function open(root, world, place) {
  const tasks = world.tasks();
  const needs = world.needs();
  // A direct message is titled with its participants.
  const wish = world.reads.wish();
  wish.set(["list/dms"]);
  const count = h("span.quiet.count");
  const status = h("p.quiet", { role: "status", hidden: true });
  const list = createHeld({
    label: say.title,
    waits: boardSay.waits,
    earlier: say.more,
    most: SHOWN,
    key: (/** @type {Need} */ need) => need.key,
    make: (need) => makeNeed(world, need),
    update: updateNeed,
  });
  const first = createFirstSteps(world);
  root.classList.add("stack", "now");
  root.append(h("h1", say.title, " ", count), first.root, list.root, status);
  let isAimed = place.fragment === "next";

  function draw() {
    const all = needs.list();
    list.setItems(all);
    const [isCut, isPart] = [needs.isCut(), needs.isPart()];
    const many = number(all.length);
    setText(count, all.length ? (isCut || isPart ? boardSay.atLeast(many) : many) : "");
    const { problem } = progressOf(world, NEEDS);
    const none = all.length ? "" : say.nothing;
    const text = [isCut ? say.cut : none, isPart ? say.part(number(LOOKED_AT)) : ""].filter(Boolean).join(" ");
    showProgress(world, status, { problem, isReading: !needs.isWhole() }, { reading: say.reading, text });
    first.show(!tasks.progress.isReading);
    aim();
  }

  /** Focuses the item after the last seen one, when the user arrives by `.`. */
  function aim() {
    if (!isAimed || !needs.isWhole()) return;
    isAimed = false;
    list.take();
    const keys = list.keys();
    const after = keys[keys.indexOf(world.seenNeed.get()) + 1] ?? keys[0];
    if (after) list.focus(after);
  }

  /** Returns the task of the focused row. */
  const threadId = () => needs.list().find(({ key }) => key === list.here())?.thread_id ?? null;

  list.root.addEventListener("focusin", () => {
    const at = list.here();
    if (at) world.seenNeed.set(at);
  });
  const unbind = world.keys.bind({
    ...listKeys(world, list, threadId),
    ".": () => void list.along(1),
  });
  const clock = setInterval(draw, TICK);

  return {
    show: draw,
    focusOn: list.focus,
    moved({ fragment }) {
      isAimed = fragment === "next";
      aim();
    },
    close() {
      clearInterval(clock);
      unbind();
      wish.close();
      list.close();
    },
  };
}
