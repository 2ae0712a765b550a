// Downloads the workspace as a signed file.
//
// Guarantees: the browser streams the file to disk, whatever its size. Not here: importing.

import { disable, whyNot } from "../../act.js";
import { addressOf } from "../../net/ask.js";
import { adminParts as say } from "../../strings/en.js";
import { button, h, setChildren } from "../../view/node.js";

/** @type {import("./part.js").OpenAdminPart} */
export function open(place, world) {
  const words = h(
    "select",
    { name: "words" },
    ...Object.entries(say.wordsOf).map(([value, label]) => h("option", { value }, label)),
  );
  const control = h("div.row");
  words.addEventListener("change", draw);
  place.append(
    h("label.field", h("span.label", say.words), words),
    h("p.quiet.small", say.exportHint),
    control,
  );

  function draw() {
    const why = whyNot(world, "export_workspace");
    const input = { workspace_id: world.me.workspace_id, words: words.value };
    const href = addressOf("export_workspace", input)?.href ?? null;
    setChildren(control, [why === null ? download(href) : disabled(why)]);
  }

  /** @param {string | null} href */
  const download = (href) =>
    h("a.button", { href, download: true, "data-action": "export_workspace" }, say.download);

  /** @param {string} why */
  function disabled(why) {
    const node = button(say.download, () => {}, { "data-action": "export_workspace" });
    disable(node, why);
    return node;
  }

  let state = "";
  return {
    wants: () => [],
    show() {
      const now = String(whyNot(world, "export_workspace"));
      if (now !== state) draw();
      state = now;
    },
  };
}
