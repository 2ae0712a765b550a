// The command palette: screens, actions for the current task, tasks by title, and each operation as a form.
//
// Guarantees: commands that the session may not use are listed too, with the missing capability; a command
// that cannot be undone needs a second press; after an operation its answer is shown, and the event that it
// caused. Not here: rendering the list (view/palette.js).

import { fold } from "./pure/filter.js";
import { narrowed } from "./pure/narrow.js";
import { actionsOn, isTwice } from "./actions.js";
import { begin } from "./act.js";
import { openForm } from "./later.js";
import { hrefTo } from "./names.js";
import { operations } from "./net/ask.js";
import { screens } from "./screens.js";
import { acting, actionNames, palette as say, places } from "./strings/en.js";
import { openDialog } from "./view/dialog.js";
import { h, link, setAttr, setChildren, show } from "./view/node.js";
import { openPalette as openList } from "./view/palette.js";
import { verbatim } from "./view/plain.js";
import titles from "./titles.js";

/** @typedef {import("./world.js").World} World */
/** @typedef {import("./view/palette.js").Entry} Entry */

const MOST = 60;
const TASKS = 8;
/** Routes that are not operations: sign-in, the socket, the schemas. */
const FRAMES = new Set([
  "create_session",
  "get_session",
  "end_session",
  "mint_first_admin",
  "begin_oidc_login",
  "subscribe",
  "openapi",
]);

/** @param {World} world */
export function openPalette(world) {
  const fixed = [...withChosen(), ...placesOf(world), ...actionsHere(world), ...operationsOf(world)];
  openList({
    title: say.title,
    placeholder: say.placeholder,
    none: say.none,
    closeLabel: say.close,
    find(text) {
      const { named, about } = narrowed(fixed, text);
      return [...named, ...channels(world, text), ...tasks(world, text), ...about].slice(0, MOST);
    },
  });
}

/** Returns the command for all selected tasks, which is listed first. @returns {Entry[]} */
function withChosen() {
  const many = document.querySelector("main [data-many]");
  if (!(many instanceof HTMLElement) || !many.checkVisibility()) return [];
  const note = many.previousElementSibling?.textContent ?? "";
  return [{ label: acting.choose, note, take: () => many.click() }];
}

/** @param {World} world @returns {Entry[]} */
function placesOf(world) {
  return screens
    .filter(({ path }) => !path.includes("{"))
    .map(({ id, path }) => ({ id, path, name: places[/** @type {"board"} */ (id)] ?? id }))
    .map(({ id, path, name }) => ({
      label: say.go(name),
      name,
      note: say.place,
      take: () => world.go(hrefTo(id) ?? path),
    }));
}

/**
 * Returns the commands for the task that is open or focused, and those for the workspace.
 *
 * @param {World} world
 * @returns {Entry[]}
 */
function actionsHere(world) {
  const at =
    document.querySelector("main [data-thread]:focus-within") ??
    document.querySelector("main .screen[data-thread]");
  const thread = world.store.get("thread", at?.getAttribute("data-thread"));
  const workspace = { id: world.me.workspace_id };
  const offered = [
    ...(thread ? actionsOn("thread", thread, world).map((action) => ({ action, entity: thread })) : []),
    ...actionsOn("workspace", workspace, world).map((action) => ({ action, entity: workspace })),
  ];
  return offered.map(({ action, entity }) => ({
    label: actionNames[action.id] ?? action.id,
    armed: isTwice(action) ? acting.armed(actionNames[action.id] ?? action.id) : null,
    note: action.on === "thread" ? world.names.threadText(entity.id) : say.action,
    lacks: lacking(world, action.op),
    take: () => begin(world, action, entity),
  }));
}

/** @param {World} world @param {string} op */
function lacking(world, op) {
  const lacks = world.lacks(op);
  return lacks ? say.lacks(lacks) : world.isOffline() ? acting.offline : null;
}

/** @param {World} world @returns {Entry[]} */
function operationsOf(world) {
  return Object.entries(titles)
    .filter(([op]) => !FRAMES.has(op))
    .map(([op, label]) => ({
      label,
      note: op,
      op,
      lacks: lacking(world, op),
      take: () => openOperation(world, op),
    }));
}

/** @param {World} world @param {string} text @returns {Entry[]} */
function channels(world, text) {
  const wanted = fold(text.replace(/^#/, ""));
  return world.store.all("channel").flatMap(({ id, kind, name }) => {
    const href = kind !== "dm" && fold(name).includes(wanted) ? hrefTo("channel", { id }) : null;
    return href ? [{ label: say.go(`#${name}`), note: places.channel, take: () => world.go(href) }] : [];
  });
}

/** @param {World} world @param {string} text @returns {Entry[]} */
function tasks(world, text) {
  const wanted = fold(text);
  if (wanted.length < 2) return [];
  const found = [];
  for (const { id, title } of world.store.all("thread")) {
    const href = fold(title).includes(wanted) ? hrefTo("task", { id }) : null;
    if (href) found.push({ label: title, note: say.task, take: () => world.go(href) });
    if (found.length >= TASKS) break;
  }
  return found;
}

/** @param {World} world @param {string} op */
function openOperation(world, op) {
  const title = titles[op] ?? op;
  const here = document.querySelector("main .screen[data-thread]")?.getAttribute("data-thread");
  void openForm(world, {
    title,
    op,
    about: true,
    values: here ? { thread_id: here } : {},
    draft: here ? `${op}/${here}` : op,
    async send(input) {
      const about = `operation/${op}`;
      const write = await world.outbox.send({ action: op, op, about, input, leavesAny: true });
      if (write.problem) return write.problem;
      showAnswer(world, title, write);
      // The answer may contain a secret, which is shown and not stored.
      write.body = null;
      return null;
    },
  });
}

/** @param {World} world @param {string} title @param {import("./net/outbox.js").Write} write */
function showAnswer(world, title, write) {
  const { body, found, op } = write;
  const changes = !["read", "wait"].includes(operations[op]?.[3] ?? "");
  const receipt = h("p", { hidden: true });
  const answer = verbatim(found ? say.lost : (body ?? say.noAnswer), { "data-answer": op });
  openDialog({ title, closeLabel: say.close, body: [receipt, answer], isWide: true, name: "answer" });
  if (changes) void showReceipt(world, receipt, write);
}

/**
 * Looks up the event that an operation caused: its answer contains the position of the log, not of the event.
 *
 * @param {World} world
 * @param {HTMLElement} place
 * @param {import("./net/outbox.js").Write} write
 */
async function showReceipt(world, place, write) {
  const lsn = (await world.outbox.leftBy(write))?.lsn ?? null;
  const href = lsn && hrefTo("log", {}, `#${lsn}`);
  setAttr(place, "data-receipt", lsn ?? "none");
  if (lsn) setChildren(place, [href ? link(href, {}, acting.receipt(lsn)) : acting.receipt(lsn)]);
  show(place, lsn !== null);
}
