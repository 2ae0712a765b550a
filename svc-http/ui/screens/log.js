// Log: every event that the user may see, newest first, and the state of its verification.
//
// Guarantees: verification runs while the screen is open; the filter and the open event are part of the
// address; nothing moves under a pointer. Not here: reading (state/log.js), verifying (proof.js), and details
// of an event (panels/event.js).

import { showProblem } from "../reading.js";
import { log as say } from "../strings/en.js";
import { openEvent } from "../panels/event.js";
import { openVerified } from "../panels/verified.js";
import { openLog } from "../state/log.js";
import { button, h, setText, show } from "../view/node.js";
import { createWindow, focusRow } from "../view/window.js";
import { alongWindow, moveKeys } from "./list-keys.js";
import { openLogFilter } from "./log-filter.js";
import { makeRow, updateRow } from "./log-row.js";

/** @typedef {import("../world.js").World} World */

/**
 * @param {HTMLElement} root
 * @param {World} world
 * @param {import("../router.js").Place} place
 * @returns {import("../screens.js").Open}
 */
export function open(root, world, place) {
  const { store, proof } = world;
  const verified = openVerified(world);
  const filter = openLogFilter(world, place.query, filtered);
  const told = h("p.quiet.small", { hidden: true });
  const problem = h("p.problem", { hidden: true, role: "alert" });
  const ways = h("div.row", { hidden: true });
  const further = button(say.further, () => void log.more());
  const retry = button(say.tryAgain, () => void log.more());
  ways.append(further, retry);
  const list = createWindow({
    label: say.list,
    waits: say.waits,
    height: () => parseFloat(getComputedStyle(root).getPropertyValue("--event-height")),
    key: ({ lsn }) => String(lsn),
    make: () => makeRow(),
    update: (node, event) => updateRow(world, node, event, filter.query()),
    onEnd: () => log.progress.hasFound && !log.progress.problem && void log.more(),
  });
  root.classList.add("log");
  root.append(
    h("div.row.log-head", h("h1", say.title), filter.root, told),
    filter.about,
    problem,
    ways,
    h("div.log-body", list.root, verified.root),
  );

  let log = begin();
  function begin() {
    return openLog(world, filter.wanted(), () => store.touch(["log/read"]));
  }

  function again() {
    log.close();
    log = begin();
  }

  /** Starts reading again with the new filter. */
  function filtered() {
    world.note(filter.query());
    again();
    drawList();
  }

  function drawList() {
    list.setItems(filter.isKnown() ? log.items() : []);
    drawTold();
  }

  function drawTold() {
    const { isReading, problem: refused, low, floor, hasFound } = log.progress;
    const count = list.count();
    const canGoOn = !isReading && !refused && !log.isAtEnd() && !log.isFull() && low > 0;
    showProblem(world, problem, refused, say.unread, " ");
    show(retry, refused !== null);
    show(further, canGoOn && !hasFound);
    show(ways, !retry.hidden || !further.hidden);
    const parts = [
      isReading ? say.reading : "",
      count === 0 && !isReading ? say.none : "",
      log.isFull()
        ? say.full
        : log.isAtEnd()
          ? say.begins(floor)
          : canGoOn && !hasFound
            ? say.lookedTo(low)
            : "",
    ].filter(Boolean);
    show(told, parts.length > 0);
    setText(told, parts.join(" "));
  }

  /** @type {ReturnType<typeof openEvent> | null} */
  let opened = null;
  /** Opens the event in the address and closes any other. @param {string} fragment */
  function openAt(fragment) {
    const last = opened;
    opened = null;
    last?.close();
    const lsn = Number(fragment);
    if (!/^\d{1,15}$/.test(fragment) || lsn < 1) return;
    const mine = openEvent(world, lsn, {
      known: log.get(lsn) ?? store.events().find((event) => event.lsn === lsn),
      query: filter.query(),
      onClose() {
        if (opened !== mine) return;
        opened = null;
        world.note(filter.query(), "");
      },
    });
    opened = mine;
  }

  const unbind = world.keys.bind({
    ...moveKeys(alongWindow(list, "data-event")),
    "/": () => filter.focus(),
    Escape: () => filter.leave(),
  });

  proof.start();
  if (place.fragment) requestAnimationFrame(() => openAt(place.fragment));

  return {
    show(changes) {
      if (changes?.lists.has("log")) again();
      if (changes) {
        log.take(changes.events);
        opened?.take(changes.events);
      }
      if (filter.show()) again();
      drawList();
      verified.show();
    },
    focusOn: (lsn) => focusRow(list, lsn),
    moved({ query, fragment }) {
      if (filter.set(query)) filtered();
      openAt(fragment);
    },
    close() {
      proof.stop();
      log.close();
      list.close();
      unbind();
      filter.close();
      const last = opened;
      opened = null;
      last?.close();
    },
  };
}
