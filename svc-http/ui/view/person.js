// Row of a member, of fixed height: name, presence, last event, claims, usage and skills.
//
// Not here: the source of the data.

import { button, h, link, setAttr, setChildren, setText, show, words } from "./node.js";

/** @typedef {{text: string, tone: string | null}} Chip */
/**
 * @typedef {{
 *   id: string, href: string | null, name: string, handle: string, kind: string, presence: Chip, standing: Chip | null,
 *   note: string, last: string, isSilent: boolean, claims: string, used: string, skills: string, menu: string,
 * }} Person
 */

/** @type {WeakMap<HTMLElement, (person: Person) => void>} */
const updates = new WeakMap();

/** @param {{openMenu: (id: string) => void, menuLabel: string}} how */
export function makePerson({ openMenu, menuLabel }) {
  const name = link("", { class: "title one-line" });
  const handle = h("span.quiet.one-line");
  const presence = h("span.chip");
  const standing = h("span.chip", { hidden: true });
  const kind = h("span.quiet");
  const note = h("span.quiet.one-line.grow");
  const last = h("span.one-line");
  const claims = h("span.one-line");
  const used = h("span.one-line.quiet");
  const skills = h("span.one-line.quiet");
  let id = "";
  const menu = button("⋯", () => openMenu(id), { class: "plain menu", "aria-haspopup": "dialog" });
  const node = h(
    "article.card.person",
    h("div.who", name, h("div.line", kind, handle)),
    h("div.there", h("div.line", presence, standing), h("div.line", note)),
    h("div.did", h("div.line", last), h("div.line", claims, used)),
    h("div.can.line", skills),
    menu,
  );
  updates.set(node, (person) => {
    id = person.id;
    setAttr(node, "data-member", id);
    setAttr(name, "href", person.href);
    setWords(name, person.name);
    setWords(handle, person.handle);
    setText(kind, person.kind);
    setChip(presence, person.presence);
    show(standing, person.standing !== null);
    if (person.standing) setChip(standing, person.standing);
    setWords(note, person.note);
    setText(last, person.last);
    setAttr(last, "data-tone", person.isSilent ? "warn" : null);
    setText(claims, person.claims);
    setText(used, person.used);
    setWords(skills, person.skills);
    setAttr(menu, "aria-label", `${menuLabel}: ${person.menu}`);
  });
  return node;
}

/** @param {HTMLElement} node @param {Person} person */
export function updatePerson(node, person) {
  updates.get(node)?.(person);
}

/** @param {HTMLElement} node @param {Chip} chip */
function setChip(node, { text, tone }) {
  setText(node, text);
  setAttr(node, "data-tone", tone);
}

/**
 * Sets text of a member, and redraws it only if it changes.
 *
 * @param {HTMLElement} node
 * @param {string} text
 */
function setWords(node, text) {
  if (node.textContent !== text || node.childElementCount === 0) setChildren(node, [words(text)]);
}
