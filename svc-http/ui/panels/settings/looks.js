// Settings for the look of the board and for single-letter keys, stored in this browser.
//
// Guarantees: a change applies immediately. Not here: what the settings change on the page.

import { openHelp } from "../../later.js";
import { changeSettings, settings, watchSettings } from "../../state/seen.js";
import { help, settings as say } from "../../strings/en.js";
import { button, h } from "../../view/node.js";

/** @returns {{nodes: HTMLElement[], close: () => void}} */
export function looks() {
  const theme = choice("theme", ["system", "light", "dark"], say.theme);
  const density = choice("density", ["comfortable", "compact"], say.density);
  const letters = h("input", { type: "checkbox", name: "letters", "aria-describedby": "letters-hint" });
  letters.addEventListener("change", () => changeSettings({ letters: letters.checked }));
  const part = (/** @type {string} */ title, /** @type {(Node | string)[]} */ ...content) =>
    h("section.panel", { "aria-label": title }, h("div.panel-body.stack", h("h2", title), ...content));

  /** @param {import("../../state/seen.js").Settings} now */
  function draw(now) {
    theme.set(now.theme);
    density.set(now.density);
    letters.checked = now.letters;
  }
  draw(settings());
  const close = watchSettings(draw);
  return {
    nodes: [
      part(say.looks, theme.node, density.node, h("p.quiet.small", say.kept)),
      part(
        say.keys,
        h("label.row", letters, h("span", help.letters)),
        h("p.quiet.small", { id: "letters-hint" }, help.lettersHint),
        h(
          "div.row",
          button(say.allKeys, () => void openHelp()),
        ),
      ),
    ],
    close,
  };
}

/**
 * @param {"theme" | "density"} name
 * @param {string[]} values
 * @param {Record<string, string>} names
 */
function choice(name, values, names) {
  const inputs = values.map((value) =>
    h("input", { type: "radio", name, value, onchange: () => changeSettings({ [name]: value }) }),
  );
  const labels = inputs.map((input) => h("label.row.tight", input, h("span", names[input.value])));
  return {
    node: h("fieldset.field", h("legend", names.label), h("div.row", ...labels)),
    /** @param {string} value */
    set(value) {
      for (const input of inputs) input.checked = input.value === value;
    },
  };
}
