// Creates and changes nodes without HTML.
//
// Guarantees: text stays text; an attribute that could run code or change the address of a script is
// rejected; the direction of foreign text is isolated. Not here: layout, and what is shown.

import { shownText } from "../pure/shown.js";

/** @typedef {string | number | Node | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Props */

/**
 * Creates an element: `h("button.primary", {type: "button", onclick: press}, "Send")`.
 *
 * Classes follow the tag after dots. A property with a function as its value becomes a listener. True makes
 * an attribute without a value; false and null make none.
 *
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T | `${T}.${string}`} what
 * @param {Props | Child} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(what, props, ...children) {
  const [tag = "", ...classes] = what.split(".");
  const node = /** @type {HTMLElementTagNameMap[T]} */ (document.createElement(tag));
  if (classes.length) node.classList.add(...classes);
  if (isProps(props)) setProps(node, props);
  else if (props !== undefined) children.unshift(props);
  node.append(...children.filter(isShown).map(asNode));
  return node;
}

/** @param {Props | Child} given @returns {given is Props} */
function isProps(given) {
  return typeof given === "object" && given !== null && !(given instanceof Node);
}

/** @param {Child} child @returns {child is string | number | Node} */
function isShown(child) {
  return child !== null && child !== undefined && child !== false;
}

/** @param {string | number | Node} child */
function asNode(child) {
  return typeof child === "number" ? String(child) : child;
}

/** @param {HTMLElement} node @param {Props} props */
function setProps(node, props) {
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") node.addEventListener(name.replace(/^on/, ""), value);
    else setAttr(node, name, value);
  }
}

/**
 * Sets an attribute if it differs. Null and false remove the attribute; true leaves it without a value.
 *
 * @param {Element} node
 * @param {string} name
 * @param {string | number | boolean | null | undefined} value
 */
export function setAttr(node, name, value) {
  if (/^(on|style$|srcdoc$)/.test(name)) throw new Error(name);
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

/**
 * Sets the text of a node if it differs.
 *
 * @param {Node} node
 * @param {string | number | null | undefined} text
 */
export function setText(node, text) {
  const wanted = String(text ?? "");
  if (node.textContent !== wanted) node.textContent = wanted;
}

/** @param {HTMLElement} node @param {boolean} isShown */
export function show(node, isShown) {
  if (node.hidden === isShown) node.hidden = !isShown;
}

/**
 * Replaces the children of a node. Children that stay keep their focus and scroll position.
 *
 * @param {Element} node
 * @param {Child[]} children
 */
export function setChildren(node, children) {
  const wanted = children.filter(isShown).map(asNode);
  const stay = new Set(wanted);
  for (const child of [...node.childNodes]) if (!stay.has(child)) child.remove();
  let at = node.firstChild;
  for (const child of wanted) {
    if (child === at) at = at.nextSibling;
    else node.insertBefore(typeof child === "string" ? document.createTextNode(child) : child, at);
  }
}

/**
 * Removes the fields from a node that is no longer shown.
 *
 * The browser would keep the fields, and with them the nodes around them, in its history.
 *
 * @param {Element} node
 */
export function dropFields(node) {
  for (const field of node.querySelectorAll("input, textarea, select")) field.remove();
}

/**
 * Returns text of a member in one line, such as a title, a name or a label.
 *
 * The text has its own direction. Invisible characters and direction controls are made visible.
 *
 * @param {string | null | undefined} text
 * @param {string} [classes] Classes, with a dot before each.
 */
export function words(text, classes = "") {
  return h(/** @type {"bdi"} */ (`bdi${classes}`), { dir: "auto" }, shownText(text ?? ""));
}

/**
 * Creates a link within the board, or to a web address.
 *
 * @param {string} href
 * @param {Props} props
 * @param {...Child} children
 */
export function link(href, props, ...children) {
  const isSafe = !/^[a-z][a-z0-9+.-]*:/i.test(href) || /^https?:/i.test(href);
  return h("a", { ...props, href: isSafe ? href : null }, ...children);
}

/**
 * Creates a button. A disabled button can still be focused, and shows the reason.
 *
 * @param {string} label
 * @param {(event: Event) => void} press
 * @param {Props} [props]
 */
export function button(label, press, props = {}) {
  const node = h("button", { type: "button", ...props }, label);
  node.addEventListener("click", (event) => {
    if (node.getAttribute("aria-disabled") !== "true") press(event);
  });
  // A held key presses once, or it would confirm the action that it has armed.
  node.addEventListener("keydown", (event) => event.repeat && event.key === "Enter" && event.preventDefault());
  return node;
}

/**
 * Keeps one node per key in a container, in the order of the items, with as few moves as possible.
 *
 * @template T
 * @param {Element} container
 * @param {T[]} items
 * @param {{key: (item: T) => string, make: (item: T) => HTMLElement, update: (node: HTMLElement, item: T) => void}} how
 */
export function keyed(container, items, { key, make, update }) {
  /** @type {Map<string, HTMLElement>} */
  const old = new Map();
  for (const child of [...container.children]) {
    if (child instanceof HTMLElement && child.dataset.key !== undefined) old.set(child.dataset.key, child);
    else child.remove();
  }
  /** @type {Element | null} */
  let at = container.firstElementChild;
  for (const item of items) {
    const id = key(item);
    let node = old.get(id);
    old.delete(id);
    if (!node) {
      node = make(item);
      node.dataset.key = id;
    }
    update(node, item);
    if (node === at) at = at.nextElementSibling;
    else container.insertBefore(node, at);
  }
  for (const gone of old.values()) gone.remove();
}
