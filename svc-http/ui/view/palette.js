// A list that is narrowed by typing, in a dialog: the first that fits is chosen, Enter takes it.
//
// Promises: it goes by arrows and Enter, and by pointer; a screen reader is told what is chosen. Leaves out:
// what is in the list.

import { openDialog } from "./dialog.js";
import { h, setAttr, show, words } from "./node.js";

/** @typedef {{label: string, note: string, take: () => void, lacks?: string | null, op?: string, name?: string}} Entry */

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
  /** @type {Entry[]} */
  let found = [];
  let at = 0;
  const dialog = openDialog({ title, closeLabel, body: [input, list, empty], name: "palette" });

  function look() {
    found = find(input.value.trim());
    at = 0;
    show(empty, found.length === 0);
    list.replaceChildren(...found.map(row));
    mark();
  }

  /** @param {Entry} entry @param {number} index */
  function row(entry, index) {
    const { label, note, lacks, op } = entry;
    const props = {
      role: "option",
      id: `palette-${index}`,
      "data-action": op,
      "aria-disabled": lacks ? "true" : null,
    };
    const node = h("li", props, words(label, ".grow"), h("span.quiet.small", lacks ?? note));
    node.addEventListener("click", () => take(entry));
    return node;
  }

  function mark() {
    for (const [index, node] of [...list.children].entries())
      setAttr(node, "aria-selected", index === at ? "true" : "false");
    setAttr(input, "aria-activedescendant", found.length ? `palette-${at}` : null);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }

  /** @param {Entry | undefined} entry */
  function take(entry) {
    if (!entry || entry.lacks) return;
    dialog.close();
    entry.take();
  }

  input.addEventListener("input", look);
  input.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step && found.length) at = (at + step + found.length) % found.length;
    else if (event.key === "Enter") take(found[at]);
    else return;
    event.preventDefault();
    mark();
  });
  look();
  input.focus();
}
