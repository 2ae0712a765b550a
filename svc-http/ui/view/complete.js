// Picking one of many by typing: a member, a task, a channel, instead of an id.
//
// Promises: what is picked is sent as its id, what is typed as an id is taken as it is, and a word that is
// nothing is refused. Leaves out: what there is to pick from.

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
  const fill = () => {
    const found = refs.find(kind, input.value);
    choices.replaceChildren(...found.map(({ label }) => h("option", { value: label })));
  };
  input.addEventListener("input", fill);
  input.addEventListener("focus", fill);
  return {
    node: h("div", input, choices),
    focus: () => input.focus(),
    read() {
      const typed = input.value.trim();
      if (typed === "") return undefined;
      if (ID.test(typed)) return typed;
      const found = refs.find(kind, typed);
      const same = found.find(({ label }) => label === typed) ?? (found.length === 1 ? found[0] : undefined);
      if (!same) throw new Wrong(kind === "member" ? say.unknownMember : say.unknownThing);
      return same.id;
    },
  };
}
