// Lists the bound keys: those of screens, of actions, and those that work everywhere.
//
// Guarantees: single-letter keys can be turned off here. Not here: binding keys.

import { actions } from "./actions.js";
import { screens } from "./screens.js";
import { changeSettings, settings } from "./state/seen.js";
import { actionNames, help as say, palette, places, shell } from "./strings/en.js";
import { openDialog } from "./view/dialog.js";
import { h } from "./view/node.js";

export function openHelp() {
  const letters = h("input", { type: "checkbox", name: "letters", checked: settings().letters });
  letters.addEventListener("change", () => changeSettings({ letters: letters.checked }));
  openDialog({
    title: say.title,
    closeLabel: shell.close,
    isWide: true,
    name: "help",
    body: [
      h(
        "div.keys",
        group(say.places, placeRows()),
        group(say.actions, actionRows()),
        group(say.anywhere, Object.entries(say.keys)),
      ),
      h("label.row", letters, h("span", say.letters)),
      h("p.quiet.small", say.lettersHint),
    ],
  });
}

/** @returns {[string, string][]} */
function placeRows() {
  return screens.flatMap(({ id, key }) =>
    key
      ? [
          /** @type {[string, string]} */ ([
            `g ${key}`,
            palette.go(places[/** @type {"board"} */ (id)] ?? id),
          ]),
        ]
      : [],
  );
}

/** @returns {[string, string][]} */
function actionRows() {
  return actions.flatMap(({ id, key }) =>
    key ? [/** @type {[string, string]} */ ([key, actionNames[id] ?? id])] : [],
  );
}

/** @param {string} title @param {[string, string][]} rows */
function group(title, rows) {
  const lines = rows.flatMap(([keys, what]) => [
    h("dt", ...keys.split(" ").flatMap((key, at) => (at === 0 ? [h("kbd", key)] : [" ", h("kbd", key)]))),
    h("dd", what),
  ]);
  return h("section.stack.tight", h("h3", title), h("dl.facts", ...lines));
}
