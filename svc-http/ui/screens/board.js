// Board: every task in its lane, according to the current data.
//
// Guarantees: lanes hold 10,000 cards; nothing moves under a pointer, the focus or a scroll; filters are part
// of the address; the board works by keyboard alone. Not here: the lane of a task (state/board.js) and the
// content of a card (cards.js).

import { asked, fromQuery, isEmpty, parseTyped, toQuery, typed } from "../pure/filter.js";
import { LANES } from "../pure/lanes.js";
import { number } from "../pure/format.js";
import { isFreeForSure } from "../pure/why.js";
import { board as say, emptyLanes, lanes as laneNames } from "../strings/en.js";
import { actionOf } from "../actions.js";
import { actionButton } from "../act.js";
import { cardOf } from "../cards.js";
import { openMenu } from "../later.js";
import { createFirstSteps } from "../panels/first-steps.js";
import { showProgress } from "../reading.js";
import { toldBeside } from "../told.js";
import { makeCard, updateCard } from "../view/card.js";
import { button, h, setAttr, setText, show } from "../view/node.js";
import { searchField, whenTyped } from "../view/search.js";
import { createWindow, focusRow } from "../view/window.js";
import { boardKeys } from "./board-keys.js";
import { chosenTasks } from "./chosen.js";

/** @typedef {import("../pure/lanes.js").Lane} Lane */
/** @typedef {import("../world.js").World} World */

/** Name that the server uses for the count of each lane. @type {Partial<Record<Lane, string>>} */
const COUNTS = { running: "claimed", blocked: "deferred", ready: "ready", "in-review": "in_review" };

const TICK = 1_000;
/** Maximum number of the user's recent actions that are shown. */
const RECEIPTS = 3;
const GROUPS = ["", "channel", "member", "repo"];

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
  let filter = fromQuery(place.query);
  const chosen = chosenTasks(world, drawLanes);
  const input = searchField("filter", say.filter, say.filterHint);
  const group = h(
    "select",
    { name: "by", "aria-label": say.group },
    ...GROUPS.map((by) => h("option", { value: by }, say.groups[/** @type {"channel"} */ (by)])),
  );
  const told = h("p.quiet.small", { hidden: true });
  const receipts = h("div.receipts");
  const beside = toldBeside(world, receipts, { most: RECEIPTS, isNamed: true });
  const create = actionButton(
    world,
    /** @type {import("../actions.js").Action} */ (actionOf("create_thread")),
    () => ({ id: world.me.workspace_id }),
  );
  const picker = h("div.picker", { role: "group", "aria-label": say.lanes });
  const columns = LANES.map((lane) => column(lane));
  const head = h(
    "div.row.board-head",
    h("h1", say.title),
    h("div.grow.filter", input),
    h("label.row.tight.group", h("span.quiet.small", say.group), group),
    told,
    h("span.end"),
    create.node,
  );
  root.classList.add("board");
  picker.replaceChildren(...columns.map(({ pick }) => pick));
  const first = createFirstSteps(world, { class: "first-place" });
  // The bulk actions precede the cards, for users who move by Tab.
  root.append(head, first.root, picker, chosen.node, h("div.lanes", ...columns.map(({ node }) => node)), receipts);

  /** @param {Lane} lane */
  function column(lane) {
    const count = h("span.quiet.count");
    const empty = h("p.quiet.small.empty", emptyLanes[lane]);
    const list = createWindow({
      label: laneNames[lane],
      waits: say.waits,
      height: () => parseFloat(getComputedStyle(root).getPropertyValue("--card-height")) + 8,
      key: (/** @type {string} */ id) => id,
      make: () => makeCard({ menu: openMenuOf, menuLabel: say.menu }),
      update: (node, id, isLeaving) => draw(node, id, lane, isLeaving),
    });
    const heading = h("h2", laneNames[lane], " ", count);
    const node = h(
      "section.lane",
      { "data-lane": lane, "aria-label": laneNames[lane] },
      heading,
      list.root,
      empty,
    );
    const pickCount = h("span.count");
    const pick = button(laneNames[lane], () => pickLane(lane, true), { "data-pick": lane, class: "plain" });
    pick.append(" ", pickCount);
    return { lane, node, list, count, pick, pickCount, empty };
  }

  /** @param {HTMLElement} node @param {string} id @param {Lane} lane @param {boolean} isLeaving */
  function draw(node, id, lane, isLeaving) {
    const thread = store.get("thread", id);
    if (!thread) return;
    const now = tasks.laneOf(id);
    const leftFor = isLeaving ? (now ? laneNames[now] : "") : null;
    const how = { lane, group: groupOf(thread), isChosen: chosen.ids.has(id), leftFor };
    updateCard(node, cardOf(world, thread, how));
  }

  /** @param {any} thread */
  function groupOf(thread) {
    if (filter.by === "channel") return world.names.channel(thread.channel_id).textContent ?? "";
    if (filter.by === "member")
      return thread.assignee_id ? world.names.memberText(thread.assignee_id) : say.none;
    if (filter.by === "repo") return thread.footprint?.repo ?? say.none;
    return "";
  }

  /** @param {string[]} ids */
  function grouped(ids) {
    if (!filter.by) return ids.slice();
    const labels = new Map(ids.map((id) => [id, groupOf(store.get("thread", id))]));
    // Tasks without a group come last; the order of the lane is kept within a group.
    const rank = (/** @type {string} */ id) => (labels.get(id) === say.none ? 1 : 0);
    return ids.toSorted(
      (one, other) => rank(one) - rank(other) || compare(labels.get(one), labels.get(other)),
    );
  }

  /**
   * Returns whether there are more deferred tasks than the list contains; those look as if they were ready.
   */
  const isMoreDeferred = () => store.get("list", "deferred")?.isWhole === false;

  const isFree = (/** @type {string} */ id) => isFreeForSure(/** @type {any} */ (store.get("thread", id)), false);

  /**
   * Returns the count of a lane, from the server while not all tasks are loaded.
   *
   * @param {Lane} lane
   * @param {number} known
   */
  function countOf(lane, known) {
    if (lane === "needs-you" && world.needs().isCut()) return say.atLeast(number(known));
    const told = isEmpty(filter) ? (store.get("counts", "workspace")?.[COUNTS[lane] ?? ""] ?? 0) : 0;
    if (isMoreDeferred() && lane === "blocked") return say.atLeast(number(Math.max(known, told)));
    if (isMoreDeferred() && lane === "ready") return say.atLeast(number(tasks.ids(lane).filter(isFree).length));
    const isMore = tasks.progress.isReading || !tasks.progress.isWhole;
    if (!isMore || !isEmpty(filter)) return number(known);
    return told > known ? number(told) : lane === "done" ? say.atLeast(number(known)) : number(known);
  }

  /** Draws the current lanes. */
  function drawLanes() {
    chosen.draw((id) => tasks.laneOf(id) !== null);
    for (const { lane, list, count, pickCount, empty } of columns) {
      const ids = tasks.ids(lane);
      const text = countOf(lane, ids.length);
      setText(count, text);
      setText(pickCount, text);
      show(empty, ids.length === 0 && !tasks.progress.isReading);
      list.setItems(grouped(ids));
    }
    // Reads the data of visible cards that events do not contain.
    const inSight = columns.flatMap(({ list }) => list.inSight().map((id) => `thread/${id}`));
    wish.set(tasks.progress.isReading || isMoreDeferred() ? ["list/counts", ...inSight] : inSight);
    drawTold();
    beside.show((about) => about.startsWith("thread/"));
    first.show(!tasks.progress.isReading);
    create.update();
  }

  function drawTold() {
    const { isReading, isWhole } = tasks.progress;
    const known = () => ({ channels: store.all("channel"), members: store.all("member") });
    const what = isReading || isWhole ? null : asked(filter, known());
    const now = tasks.narrow(what);
    // By member, the server can only list claims.
    const isHeld = !isWhole && what !== null && "assignee_id" in what.input;
    const part = isEmpty(filter) ? say.notAll : say.notAllOf;
    const text = isHeld ? say.onlyHeld : now.isWhole ? "" : part(number(store.count("thread")));
    showProgress(world, told, now, { reading: say.reading, text });
  }

  /** @param {Lane} lane @param {boolean} isAsked */
  function pickLane(lane, isAsked) {
    for (const { lane: one, node, pick } of columns) {
      setAttr(node, "data-picked", one === lane);
      setAttr(pick, "aria-pressed", one === lane ? "true" : "false");
      if (one === lane && isAsked) pick.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }

  function applyFilter() {
    if (document.activeElement !== input) input.value = typed(filter);
    group.value = filter.by;
    const isNone = isEmpty(filter);
    tasks.setFilter(isNone ? null : filter);
    drawLanes();
  }

  /** @param {typeof filter} next */
  function setFilter(next) {
    filter = next;
    const query = toQuery(filter);
    world.note(query ? `?${query}` : "");
    applyFilter();
  }

  whenTyped(input, () => setFilter({ ...parseTyped(input.value), by: filter.by }));
  group.addEventListener("change", () => setFilter({ ...filter, by: group.value }));

  /** @param {string} id */
  const openMenuOf = (id) => openMenu(world, "thread", "thread", id, world.names.threadText(id));

  const clock = setInterval(() => {
    for (const { lane, list } of columns) if (lane !== "done" && lane !== "ready") list.redraw();
  }, TICK);
  const density = new MutationObserver(() => columns.forEach(({ list }) => list.measure()));
  density.observe(document.documentElement, { attributeFilter: ["data-density"] });
  const unbind = world.keys.bind(boardKeys({ root, columns, input, world, chosen }));

  pickLane(/** @type {Lane} */ (LANES.find((lane) => lane === filter.lane) ?? "running"), false);
  applyFilter();

  return {
    show(changes) {
      if (changes?.lists.has("occupancy")) world.reads.again("list/counts");
      drawLanes();
    },
    /** Focuses the card that the user left. @param {string} id */
    focusOn: (id) => columns.some(({ list }) => focusRow(list, id)),
    moved({ query }) {
      filter = fromQuery(query);
      applyFilter();
    },
    close() {
      clearInterval(clock);
      density.disconnect();
      wish.close();
      unbind();
      for (const { list } of columns) list.close();
      tasks.setFilter(null);
      tasks.narrow(null);
    },
  };
}

/** @param {string | undefined} one @param {string | undefined} other */
function compare(one = "", other = "") {
  return one.localeCompare(other);
}
