// Audit trail: who changed what, and through which interface, newest first.
//
// Guarantees: filters are part of the address; pages are read as the user scrolls, and the screen shows how
// far it has read. Not here: reading (state/audit.js) and the content of a row (audit-row.js).

import { hasWords, noFilter, parseTyped, typed } from "../pure/filter.js";
import { showProblem } from "../reading.js";
import { audit as say } from "../strings/en.js";
import { openAudit } from "../state/audit.js";
import { NOBODY, idNamed } from "../state/named.js";
import { button, h, setChildren, setText, show } from "../view/node.js";
import { searchField, whenTyped } from "../view/search.js";
import { createWindow } from "../view/window.js";
import { alongWindow, moveKeys } from "./list-keys.js";
import { makeAuditRow, nameOf, updateAuditRow } from "./audit-row.js";

/** @typedef {import("../world.js").World} World */


/**
 * @param {HTMLElement} root
 * @param {World} world
 * @param {import("../router.js").Place} place
 * @returns {import("../screens.js").Open}
 */
export function open(root, world, place) {
  const { store } = world;
  let now = read(place.query);
  const input = searchField("filter", say.filter, say.filterHint);
  const actions = h("datalist", { id: "audit-actions" });
  const action = searchField("action", say.action, say.actionHint, { list: "audit-actions" });
  const newest = button(say.newest, () => ((hasNewer = false), void audit.newer()));
  const told = h("p.quiet.small");
  const problem = h("p.problem", { hidden: true, role: "alert" });
  const further = button(say.further, () => void audit.more());
  const retry = button(say.tryAgain, () => void audit.more());
  const ways = h("div.row", { hidden: true }, further, retry);
  const list = createWindow({
    label: say.list,
    waits: say.waits,
    height: () => parseFloat(getComputedStyle(root).getPropertyValue("--event-height")),
    key: ({ seq }) => String(seq),
    make: () => makeAuditRow(world),
    update: (node, row) => updateAuditRow(world, node, row),
    onEnd: () => audit.progress.hasFound && !audit.progress.problem && void audit.more(),
  });
  root.classList.add("log", "audit");
  root.append(
    h("div.row", h("h1", say.title), h("div.grow.filter", input), h("div.filter", action, actions), newest),
    h("p.quiet.small.wide-only", say.hint),
    told,
    problem,
    ways,
    list.root,
  );
  let hasNewer = false;
  let member = memberOf();
  let audit = begin();

  /** Returns the id of the member in the filter; names may not be loaded yet. */
  function memberOf() {
    return idNamed(store, "member", now.member, ({ handle }) => handle);
  }

  function begin() {
    const { text } = now;
    const who = member;
    return openAudit(
      world,
      {
        action: now.action,
        fits: (row) =>
          (who === "" || row.actor_id === who || row.subject_id === who) &&
          (text === "" || hasWords(`${row.action} ${nameOf(row)} ${JSON.stringify(row.metadata)}`, text)),
      },
      () => store.touch(["audit/read"]),
    );
  }

  function again() {
    audit.close();
    audit = begin();
  }

  /** @param {Partial<typeof now>} change */
  function take(change) {
    now = { ...now, ...change };
    const query = new URLSearchParams(Object.entries(now).filter(([, value]) => value !== ""));
    world.note(query.size ? `?${query}` : "");
    member = memberOf();
    again();
    draw();
  }

  whenTyped(input, () => {
    const { text, member: who } = parseTyped(input.value);
    take({ text, member: who });
  });
  action.addEventListener("change", () => take({ action: action.value.trim() }));

  function drawFields() {
    if (document.activeElement !== input)
      input.value = typed({ ...noFilter(), text: now.text, member: now.member });
    if (document.activeElement !== action) action.value = now.action;
  }

  /** Offers the actions of all rows that were loaded. */
  function drawActions() {
    for (const row of audit.items()) seen.add(row.action);
    if (actions.childElementCount === seen.size) return;
    setChildren(
      actions,
      [...seen].sort().map((value) => h("option", { value })),
    );
  }
  /** @type {Set<string>} */
  const seen = new Set();

  function drawTold() {
    const { isReading, problem: refused, isAtEnd, hasFound, looked } = audit.progress;
    const isMissing = member === NOBODY;
    const canGoOn = !isReading && !refused && !isAtEnd && !audit.isFull() && !hasFound;
    showProblem(world, problem, refused, say.unread, " ");
    show(retry, refused !== null);
    show(further, canGoOn);
    show(ways, refused !== null || canGoOn);
    const texts = [
      isMissing ? say.noSuchMember(now.member) : "",
      isReading ? say.reading : list.count() === 0 && !isMissing ? say.none : "",
      audit.isFull() ? say.full : isAtEnd ? say.begins : canGoOn ? say.looked(looked) : "",
      hasNewer ? say.hasNewer : "",
    ].filter(Boolean);
    show(told, texts.length > 0);
    setText(told, texts.join(" "));
  }

  function draw() {
    drawFields();
    drawActions();
    list.setItems(member === NOBODY ? [] : audit.items());
    drawTold();
  }

  const unbind = world.keys.bind({
    ...moveKeys(alongWindow(list, "data-audit")),
    "/": () => (input.focus(), input.select()),
    Escape: () => document.activeElement === input && (input.blur(), true),
  });

  return {
    show(changes) {
      // A change that writes an event also writes an audit row.
      if (changes?.events.length) hasNewer = true;
      const who = memberOf();
      if (who !== member) {
        member = who;
        again();
      }
      draw();
    },
    moved({ query }) {
      now = read(query);
      member = memberOf();
      again();
      draw();
    },
    close() {
      unbind();
      audit.close();
      list.close();
    },
  };
}

/** @param {URLSearchParams} query */
function read(query) {
  const [text = "", member = "", action = ""] = ["text", "member", "action"].map(
    (name) => query.get(name) ?? "",
  );
  return { text, member, action };
}
