// Card of a task: four lines of fixed height, a link, and a menu beside it.
//
// Guarantees: the card changes in place; everything on it is text, and the accessible name of its link
// contains all of it. Not here: the texts.

import { button, h, setAttr, setText, show, words } from "./node.js";

/**
 * Content of a card: `holder`, `about` and `touches` are lines; chips are short coloured labels.
 *
 * @typedef {{text: string, tone?: string, title?: string}} Chip
 * @typedef {{
 *   id: string,
 *   href: string | null,
 *   name: string,
 *   title: string,
 *   holder: string,
 *   left: {text: string, state: string, share: number | null} | null,
 *   about: string,
 *   touches: string,
 *   chips: Chip[],
 *   isChosen: boolean,
 *   isOpen: boolean,
 *   isLeaving: boolean,
 * }} Card
 */

/** @param {{menu: (id: string, node: HTMLElement) => void, menuLabel: (title: string) => string}} how */
export function makeCard({ menu, menuLabel }) {
  const title = h("a.title.one-line");
  const more = button("⋯", () => menu(card.dataset.thread ?? "", card), { class: "menu plain" });
  const holder = h("span.grow");
  const left = h("span.left");
  const bar = h("progress.bar", { max: 1 });
  const about = h("span.grow");
  const touches = h("span.grow.mono");
  const chips = h("span.chips");
  const card = h(
    "article.card",
    title,
    more,
    h("div.line", holder, left),
    bar,
    h("div.line.quiet.slim", about),
    h("div.line.quiet.wide", chips, touches),
  );
  card.addEventListener("animationend", () => card.classList.remove("changed"));
  /** @type {Card | null} */
  let shown = null;
  nodes.set(card, {
    title,
    more,
    holder,
    left,
    bar,
    about,
    touches,
    chips,
    menuLabel,
    get: () => shown,
    set: (next) => (shown = next),
  });
  return card;
}

/**
 * @typedef {{
 *   title: HTMLElement, more: HTMLElement, holder: HTMLElement, left: HTMLElement,
 *   bar: HTMLElement, about: HTMLElement, touches: HTMLElement, chips: HTMLElement, menuLabel: (title: string) => string,
 *   get: () => Card | null, set: (card: Card) => void,
 * }} Parts
 */
/** @type {WeakMap<HTMLElement, Parts>} */
const nodes = new WeakMap();

/**
 * @param {HTMLElement} card
 * @param {Card} next
 */
export function updateCard(card, next) {
  const parts = nodes.get(card);
  if (!parts) return;
  const before = parts.get();
  parts.set(next);
  if (before?.id !== next.id || before.title !== next.title) {
    parts.title.replaceChildren(words(next.title));
    setAttr(parts.more, "aria-label", parts.menuLabel(next.title));
  }
  setAttr(card, "data-thread", next.id);
  setAttr(card, "data-chosen", next.isChosen);
  setAttr(parts.title, "aria-current", next.isOpen ? "true" : null);
  setAttr(card, "data-leaving", next.isLeaving);
  setAttr(parts.title, "href", next.href);
  setAttr(parts.title, "aria-label", next.name);
  setText(parts.holder, next.holder);
  show(parts.left, next.left !== null);
  setText(parts.left, next.left?.text);
  setAttr(parts.left, "data-left", next.left?.state);
  setBar(parts.bar, next.left);
  setText(parts.about, next.about);
  setText(parts.touches, next.touches);
  setChips(parts.chips, next.chips, before?.chips);
  const isSame = before?.id === next.id && before.isChosen === next.isChosen;
  if (isSame && toldBy(before) !== toldBy(next)) card.classList.add("changed");
}

/** Returns the content that members change, as opposed to content that time changes. @param {Card} card */
const toldBy = ({ title, holder, touches, chips }) =>
  [title, holder, touches, ...chips.map(({ text }) => text)].join("\n");

/** @param {HTMLElement} node @param {Card["left"]} left */
function setBar(node, left) {
  const share = left?.share ?? null;
  node.classList.toggle("none", share === null);
  if (share === null) return;
  setAttr(node, "value", share.toFixed(2));
  setAttr(node, "data-tone", left?.state === "amber" ? "warn" : left?.state === "plenty" ? null : "bad");
  setAttr(node, "aria-hidden", "true");
}

/** @param {HTMLElement} node @param {Chip[]} chips @param {Chip[] | undefined} before */
function setChips(node, chips, before) {
  if (before && JSON.stringify(before) === JSON.stringify(chips)) return;
  node.replaceChildren(
    ...chips.map(({ text, tone, title }) => h("span.chip", { "data-tone": tone, title }, text)),
  );
}
