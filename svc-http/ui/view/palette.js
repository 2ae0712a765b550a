// Dialog with a list that typing filters: the first match is selected, Enter runs it.
//
// Guarantees: arrows, Enter and a pointer work; screen readers announce the selection, and entries that need
// a second press. Not here: the content of the list.

import { openDialog } from "./dialog.js";
import { h, setAttr, setText, show, words } from "./node.js";
import { createTwice } from "./twice.js";

/**
 * @typedef {{label: string, note: string, take: () => void, lacks?: string | null, op?: string, name?: string, armed?: string | null}} Entry
 * `armed`: label between the two presses, for an entry that needs two.
 */

/**
 * @param {{
 *   title: string,
 *   placeholder: string,
 *   none: string,
 *   closeLabel: string,
 *   find: (text: string) => Entry[],
 * }} how
 */
export function openPalette({ title, placeholder, none, closeLabel, find }) {
  const input = h("input", {
    type: "text",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "palette-list",
    "aria-autocomplete": "list",
    "aria-label": title,
    placeholder,
    autocomplete: "off",
    spellcheck: "false",
  });
  const list = h("ul.palette", { id: "palette-list", role: "listbox", "aria-label": title });
  const empty = h("p.quiet", { hidden: true }, none);
  const told = h("p.heard", { role: "status" });
  /** State of each row that needs a second press. @type {WeakMap<Element, ReturnType<typeof createTwice>>} */
  const twices = new WeakMap();
  /** @type {Entry[]} */
  let found = [];
  let at = 0;
  const dialog = openDialog({ title, closeLabel, body: [input, list, empty, told], name: "palette" });

  function look() {
    found = find(input.value.trim());
    at = 0;
    for (const row of list.children) twices.get(row)?.disarm();
    show(empty, found.length === 0);
    list.replaceChildren(...found.map(row));
    mark();
  }

  /** @param {Entry} entry @param {number} index */
  function row(entry, index) {
    const { label, note, lacks, op, armed = null } = entry;
    const props = {
      role: "option",
      id: `palette-${index}`,
      "data-action": op,
      "aria-disabled": lacks ? "true" : null,
    };
    const name = words(label, ".grow");
    const node = h("li", props, name, h("span.quiet.small", lacks ?? note));
    const showArmed = (/** @type {boolean} */ isArmed) => {
      setText(name, isArmed ? armed : label);
      setText(told, isArmed ? armed : "");
      node.classList.toggle("armed", isArmed);
    };
    twices.set(node, createTwice(armed !== null, showArmed));
    node.addEventListener("click", () => take(index));
    return node;
  }

  function mark() {
    for (const [index, node] of [...list.children].entries())
      setAttr(node, "aria-selected", index === at ? "true" : "false");
    setAttr(input, "aria-activedescendant", found.length ? `palette-${at}` : null);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }

  /** @param {number} index */
  function take(index) {
    const entry = found[index];
    const row = list.children[index];
    if (!entry || entry.lacks || !row || !twices.get(row)?.press()) return;
    dialog.close();
    entry.take();
  }

  input.addEventListener("input", look);
  input.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step && found.length) at = (at + step + found.length) % found.length;
    else if (event.key === "Enter") take(event.repeat ? -1 : at);
    else return;
    event.preventDefault();
    mark();
  });
  look();
  input.focus();
}
