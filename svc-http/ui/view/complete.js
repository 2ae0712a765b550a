// Field that picks one of many by typing: a member, a task or a channel instead of an id.
//
// Guarantees: a picked or initial value is sent as its id while its text is unchanged; a typed id is
// accepted; an unknown or ambiguous name is rejected. Not here: the choices.

import { form as say } from "../strings/en.js";
import { h } from "./node.js";
import { Wrong } from "./fields.js";

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
let count = 0;

/**
 * @param {{kind: string, value: string | null | undefined, isRequired: boolean, refs: import("./form.js").Refs}} what
 * @returns {import("./fields.js").Field}
 */
export function pickField({ kind, value, isRequired, refs }) {
  const id = `choices-${(count += 1)}`;
  const choices = h("datalist", { id });
  const input = h("input", {
    list: id,
    required: isRequired,
    autocomplete: "off",
    "data-control": "",
    dir: "auto",
  });
  input.value = value ? refs.labelOf(kind, value) : "";
  /** Id of the current text. */
  let picked = value ?? undefined;
  /** @type {import("./form.js").Choice[]} */
  let shown = [];
  const fill = () => {
    shown = refs.find(kind, input.value);
    choices.replaceChildren(...shown.map(({ label }) => h("option", { value: label })));
  };
  input.addEventListener("input", () => {
    picked = shown.find(({ label }) => label === input.value)?.id;
    fill();
  });
  input.addEventListener("focus", fill);
  return {
    node: h("div", input, choices),
    focus: () => input.focus(),
    read() {
      const typed = input.value.trim();
      if (typed === "") return undefined;
      if (picked) return picked;
      if (ID.test(typed)) return typed;
      const [same, another] = refs.named(kind, typed);
      if (another) throw new Wrong(say.severalThings);
      if (!same) throw new Wrong(kind === "member" ? say.unknownMember : say.unknownThing);
      return same.id;
    },
  };
}
