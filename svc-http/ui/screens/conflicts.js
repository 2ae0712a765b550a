// Conflicts: claims with the tasks that wait for them, and the limits that affect everyone: slots and pauses.
//
// Guarantees: claims that most tasks wait for are first; a claim that the user cannot see is shown with its
// holder and its end; nothing moves under the user. Not here: the order (pure/conflicts.js).

import { heldOf, reposOf } from "../pure/conflicts.js";
import { number } from "../pure/format.js";
import { conflicts as say } from "../strings/en.js";
import { actionOf } from "../actions.js";
import { actionButton } from "../act.js";
import { makeHeld, updateHeld } from "../panels/holder.js";
import { makePause, makeSlot, updateRule } from "../panels/rules.js";
import { progressOf, showProgress } from "../reading.js";
import { toldBeside } from "../told.js";
import { createHeld } from "../view/held.js";
import { h, setChildren, show } from "../view/node.js";
import { listKeys } from "./list-keys.js";

/** @typedef {import("../world.js").World} World */

const SHOWN = 50;
const TICK = 1_000;
const RULES = /^(?:slot|pause)\//;

/**
 * @param {HTMLElement} root
 * @param {World} world
 * @param {import("../router.js").Place} place
 * @returns {import("../screens.js").Open}
 */
export function open(root, world, place) {
  const { store } = world;
  const tasks = world.tasks();
  const wish = world.reads.wish();
  wish.set(["list/deferred", "list/slots", "list/pauses"]);
  let repo = place.query.get("repo") ?? "";
  const workspace = { id: world.me.workspace_id };
  const select = h("select", { name: "repo", "aria-label": say.repo });
  const told = h("p.quiet.small", { hidden: true });
  const receipts = h("div");
  const beside = toldBeside(world, receipts);
  const setSlot = actionButton(world, actionNamed("new_slot"), () => workspace);
  const pauseRepo = actionButton(world, actionNamed("pause_repo"), () => workspace);
  const held = listOf({
    label: say.heldList,
    key: (/** @type {import("../pure/conflicts.js").Held} */ one) => one.key,
    make: (one) => makeHeld(world, one),
    update: updateHeld,
  });
  const slots = listOf({
    label: say.slots,
    key: (/** @type {any} */ { id }) => id,
    make: (slot) => makeSlot(world, slot),
    update: updateRule,
  });
  const pauses = listOf({
    label: say.pauses,
    key: (/** @type {any} */ { id }) => id,
    make: (pause) => makePause(world, pause),
    update: updateRule,
  });
  const [noneHeld, noSlots, noPauses] = [say.noneHeld, "", ""].map((text) =>
    h("p.quiet", { hidden: true }, text),
  );

  root.classList.add("stack", "conflicts");
  root.append(
    h("div.row", h("h1", say.title), select, told),
    receipts,
    h(
      "div.conflicts-body",
      section(say.held, null, null, held.root, noneHeld),
      h(
        "div.stack",
        section(say.slots, say.slotsHint, setSlot.node, slots.root, noSlots),
        section(say.pauses, say.pausesHint, pauseRepo.node, pauses.root, noPauses),
      ),
    ),
  );

  select.addEventListener("change", () => {
    repo = select.value;
    world.note(repo ? `?${new URLSearchParams({ repo })}` : "");
    draw();
  });

  function drawRepos() {
    const names = reposOf({ threads: threads(), deferred: deferred() });
    if (repo && !names.some((name) => name.toLowerCase() === repo.toLowerCase())) names.push(repo);
    const now = names.join("\n");
    if (select.dataset.names !== now) {
      select.dataset.names = now;
      setChildren(select, [
        h("option", { value: "" }, say.allRepos),
        ...names.map((name) => h("option", { value: name }, name)),
      ]);
    }
    select.value = names.find((name) => name.toLowerCase() === repo.toLowerCase()) ?? "";
  }

  const threads = () => /** @type {any[]} */ (store.all("thread"));
  const deferred = () => /** @type {any[]} */ (store.all("deferred"));

  function drawTold() {
    const list = store.get("list", "deferred");
    const waits = progressOf(world, ["list/deferred"]);
    const problem = waits.problem ?? tasks.progress.problem;
    const isReading = problem === null && (waits.isReading || tasks.progress.isReading);
    const text = !list || list.isWhole ? "" : say.atLeast(number(list.count));
    showProgress(world, told, { problem, isReading }, { reading: say.reading, text });
    show(noneHeld, problem === null && !isReading && held.keys().length === 0);
    drawNone(noSlots, "list/slots", slots.keys().length ? "" : say.noSlots);
    drawNone(noPauses, "list/pauses", pauses.keys().length ? "" : say.noPauses);
  }

  /** @param {HTMLElement} node @param {string} list @param {string} text */
  function drawNone(node, list, text) {
    showProgress(world, node, progressOf(world, [list]), { reading: "", text });
  }

  function draw() {
    drawRepos();
    held.setItems(heldOf({ threads: threads(), deferred: deferred(), repo }));
    slots.setItems(byName("slot"));
    pauses.setItems(byName("pause"));
    drawTold();
    for (const { update } of [setSlot, pauseRepo]) update();
    // The outcome of an action on a limit that is gone is shown above, because the limit has no row.
    beside.show(
      (about) => about === `workspace/${workspace.id}` || (RULES.test(about) && isGone(about)),
      workspace,
    );
  }

  /** @param {string} kind */
  const byName = (kind) => store.all(kind).sort((one, other) => (one.id < other.id ? -1 : 1));

  /** @param {string} about */
  function isGone(about) {
    const at = about.indexOf("/");
    return store.get(about.slice(0, at), about.slice(at + 1)) === undefined;
  }

  const clock = setInterval(() => held.redraw(), TICK);
  const unbind = world.keys.bind({
    ...listKeys(world, held, () => held.row()?.dataset.thread ?? null),
    "/": () => select.focus(),
  });

  return {
    show: draw,
    focusOn: (key) => [held, slots, pauses].some((list) => list.focus(key)),
    moved({ query }) {
      repo = query.get("repo") ?? "";
      draw();
    },
    close() {
      clearInterval(clock);
      unbind();
      wish.close();
      for (const list of [held, slots, pauses]) list.close();
    },
  };
}

/** @param {string} id */
const actionNamed = (id) => /** @type {import("../actions.js").Action} */ (actionOf(id));

/**
 * @template T
 * @param {{label: string, key: (item: T) => string, make: (item: T) => HTMLElement, update: (node: HTMLElement, item: T, isLeaving: boolean) => void}} how
 */
const listOf = (how) => createHeld({ ...how, waits: say.waits, earlier: say.more, most: SHOWN });

/**
 * @param {string} title
 * @param {string | null} hint
 * @param {HTMLElement | null} control
 * @param {...HTMLElement} rest
 */
function section(title, hint, control, ...rest) {
  return h(
    "section.stack.tight",
    { "aria-label": title },
    h("div.row", h("h2", title), control ? h("span.end", control) : null),
    hint ? h("p.quiet.small", hint) : null,
    ...rest,
  );
}
