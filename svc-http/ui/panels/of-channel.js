// Sections of a channel besides its tasks: boot text, pins, members and glossary.
//
// Guarantees: each section is loaded while the channel is open, and names a missing capability; text of other
// members is shown as theirs. Not here: tasks and their messages.

import { oneLine } from "../pure/line.js";
import { actionOf } from "../actions.js";
import { actionBar, actionButton } from "../act.js";
import { marked } from "../marked.js";
import { hrefTo } from "../names.js";
import { channel as say, parts, problemParts } from "../strings/en.js";
import { toldBeside } from "../told.js";
import { h, keyed, link, setChildren, setText, show, words } from "../view/node.js";
import { nodesOf } from "../view/parts.js";

/** @typedef {import("../world.js").World} World */
/**
 * @typedef {{id: string, title: string, needs: string, key: (id: string) => string, open: (place:
 * HTMLElement, world: World, id: string) => () => void}} Part
 */

const PINNED = 160;
const MEMBERS = 200;

/** @type {Part[]} */
const PARTS = [
  { id: "boot", title: say.boot, needs: "get_channel_boot", key: (id) => `boot/${id}`, open: openBoot },
  { id: "pins", title: say.pins, needs: "list_pins", key: (id) => `pins/${id}`, open: openPins },
  {
    id: "members",
    title: say.members,
    needs: "list_channel_members",
    key: (id) => `channel_members/${id}`,
    open: openMembers,
  },
  {
    id: "glossary",
    title: say.glossary,
    needs: "list_glossary",
    key: () => "list/glossary",
    open: openGlossary,
  },
];

/** Returns the keys of the data that the sections show. @param {string} id */
export const wishesOf = (id) => PARTS.map(({ key }) => key(id));

/**
 * @param {World} world
 * @param {string} id
 * @param {boolean} isOpen Whether the sections are unfolded at first.
 */
export function openParts(world, id, isOpen) {
  const opened = PARTS.map((part) => {
    const place = h("div.stack.panel-body");
    const problem = h("p.quiet.small", { hidden: true });
    const node = h(
      "details.panel",
      { open: isOpen, "data-panel": part.id },
      h("summary", h("h2", part.title)),
      place,
      problem,
    );
    return { part, node, problem, place, draw: part.open(place, world, id) };
  });
  return {
    nodes: opened.map(({ node }) => node),
    show() {
      for (const { part, problem, place, draw } of opened) {
        const lacks = world.lacks(part.needs);
        const refused = world.reads.standing(part.key(id))?.problem;
        show(problem, Boolean(lacks ?? refused));
        show(place, !lacks);
        if (lacks) setText(problem, parts.lacksPart(lacks));
        else if (refused) setChildren(problem, nodesOf(problemParts(refused), world.names));
        if (!lacks) draw();
      }
    },
  };
}

/**
 * Creates a button for an action on the channel or on the workspace.
 *
 * @param {World} world
 * @param {string} action
 * @param {() => any} entity
 */
function buttonOf(world, action, entity) {
  return actionButton(world, /** @type {import("../actions.js").Action} */ (actionOf(action)), entity);
}

/** @param {HTMLElement} place @param {World} world @param {string} id */
function openBoot(place, world, id) {
  const text = h("div");
  const by = h("p.quiet.small");
  const change = buttonOf(world, "set_channel_boot", () => world.store.get("channel", id));
  place.append(text, by, h("div.row", change.node));
  /** @type {unknown} */
  let drawn;
  return () => {
    change.update();
    const boot = world.store.get("boot", id);
    if (!boot || boot === drawn) return;
    drawn = boot;
    setChildren(text, [
      boot.text ? marked(world, boot.text, { of: `boot/${id}`, channel: id }) : h("p.quiet", say.noBoot),
    ]);
    show(by, boot.version > 0);
    setChildren(by, [say.bootBy(boot.version), world.names.member(boot.updated_by)]);
  };
}

/** @param {HTMLElement} place @param {World} world @param {string} id */
function openPins(place, world, id) {
  const list = h("ul.stack.tight");
  const none = h("p.quiet", say.noPins);
  place.append(list, none);
  return () => {
    const pins = world.store.get("pins", id)?.items ?? [];
    show(none, pins.length === 0);
    keyed(list, pins, {
      key: (/** @type {any} */ { message, lsn }) => `${message.id} ${lsn}`,
      make: (/** @type {any} */ { message }) => pinOf(world, message),
      update: () => {},
    });
  };
}

/** @param {World} world @param {any} message */
function pinOf(world, message) {
  const href = hrefTo("task", { id: message.thread_id }, `#m-${message.id}`);
  const text = words(oneLine(message.body, PINNED));
  return h(
    "li",
    { "data-pin": message.id },
    world.names.member(message.author_id),
    ": ",
    href ? link(href, {}, text) : text,
  );
}

/** @param {HTMLElement} place @param {World} world @param {string} id */
function openMembers(place, world, id) {
  const list = h("ul.stack.tight");
  const none = h("p.quiet", { hidden: true }, say.noMembers);
  const add = buttonOf(world, "add_channel_member", () => world.store.get("channel", id));
  const buttons = h("div.row", add.node);
  place.append(list, none, buttons);
  return () => {
    add.update();
    show(buttons, world.store.get("channel", id)?.kind !== "dm");
    const members = world.store.get("channel_members", id)?.items ?? [];
    show(none, world.store.get("channel_members", id) !== undefined && members.length === 0);
    keyed(list, members.slice(0, MEMBERS), {
      key: (/** @type {any} */ { member_id }) => member_id,
      make: (/** @type {any} */ one) => rowOf(world, "channel_member", { ...one, id: one.member_id }),
      update: (node) => rows.get(node)?.(),
    });
  };
}

/** @type {WeakMap<HTMLElement, () => void>} */
const rows = new WeakMap();

/** @param {World} world @param {"channel_member"} on @param {any} one */
function rowOf(world, on, one) {
  const buttons = h("span.row.tight.end");
  const told = h("div");
  const bar = actionBar(world, on, buttons);
  const beside = toldBeside(world, told);
  const isMine = world.store.get("channel", one.channel_id)?.kind !== "dm";
  const node = h("li", h("div.row", world.names.member(one.member_id), isMine ? buttons : null), told);
  rows.set(node, () => {
    bar.show(one);
    beside.show(`${on}/${one.id}`, one);
  });
  return node;
}

/** @param {HTMLElement} place @param {World} world */
function openGlossary(place, world) {
  const list = h("dl.stack.tight");
  const none = h("p.quiet", say.noTerms);
  const add = buttonOf(world, "set_glossary_term", () => ({ id: world.me.workspace_id }));
  place.append(list, none, h("div.row", add.node));
  return () => {
    add.update();
    const terms = world.store.all("term").sort((one, other) => one.key.localeCompare(other.key));
    show(none, world.store.get("list", "glossary") !== undefined && terms.length === 0);
    keyed(list, terms, {
      key: ({ id, lsn }) => `${id} ${lsn}`,
      make: (term) => termOf(world, term),
      update: (node) => rows.get(node)?.(),
    });
  };
}

/** @param {World} world @param {any} term */
function termOf(world, term) {
  const buttons = h("span.row.tight.end");
  const told = h("div");
  const bar = actionBar(world, "term", buttons);
  const beside = toldBeside(world, told);
  const node = h(
    "div",
    { "data-term": term.key },
    h("dt.row", h("strong", words(term.term)), buttons),
    h("dd", marked(world, term.definition, { of: `term/${term.id}` })),
    told,
  );
  rows.set(node, () => {
    bar.show(term);
    beside.show(`term/${term.id}`, term);
  });
  return node;
}
