// Legal holds, which prevent the removal of data.
//
// Not here: the data that they protect.

import { admin as common, adminParts as say } from "../../strings/en.js";
import { plainWords } from "../../view/plain.js";
import { doneBy, isOverNow, openRows, standingOf, timeText } from "./rows.js";
import { workspaceBar } from "./part.js";

/** @type {import("./part.js").OpenAdminPart} */
export function open(place, world) {
  const bar = workspaceBar(world, "place_legal_hold");
  const rows = openRows(world, {
    on: "hold",
    label: common.parts.holds?.name ?? "",
    none: say.noHolds,
    marks: { "data-hold": "id" },
    isOver: isOverNow(world),
    title: ({ reason }) => [plainWords(reason)],
    chips: (hold) => [standingOf(world, hold) ?? { text: say.inForce, tone: "warn" }],
    facts: (hold) => [
      [say.placed, ...doneBy(world, hold.placed_at, hold.placed_by)],
      ...(hold.released_at ? releasedFacts(hold) : []),
    ],
  });

  /** @param {any} hold @returns {[string, ...(Node | string)[]][]} */
  const releasedFacts = ({ released_at, released_by }) => [
    released_by
      ? [common.released, ...doneBy(world, released_at, released_by)]
      : [common.released, timeText(released_at)],
  ];

  place.append(...bar.nodes, rows.node);
  return {
    wants: () => ["list/holds"],
    show() {
      bar.show();
      const { store } = world;
      rows.show(store.get("list", "holds") ? store.all("hold").reverse() : null);
    },
    close: rows.close,
  };
}
