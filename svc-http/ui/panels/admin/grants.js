// Delegation grants, by which one member acts for another, and their maximum lifetime.
//
// Not here: the tokens that grants are exchanged for, which are valid for at most an hour.

import { ONE } from "../../state/entities.js";
import { admin as common, adminParts as say } from "../../strings/en.js";
import { plainWords } from "../../view/plain.js";
import { h, setText } from "../../view/node.js";
import { canFact, doneBy, isOverNow, openRows, standingOf, untilFact } from "./rows.js";
import { workspaceBar } from "./part.js";

/** @type {import("./part.js").OpenAdminPart} */
export function open(place, world) {
  const { store } = world;
  const bar = workspaceBar(world, "create_delegation_grant", "set_delegation_policy");
  const ceiling = h("p.quiet");
  const rows = openRows(world, {
    on: "grant",
    label: common.parts.grants?.name ?? "",
    none: say.noGrants,
    marks: { "data-grant": "id" },
    isOver: isOverNow(world),
    title: ({ delegate, subject }) => [
      world.names.member(delegate),
      say.actsFor,
      world.names.member(subject),
    ],
    chips: (grant) => [standingOf(world, grant) ?? []].flat(),
    facts: (grant) => [
      [say.what, plainWords(grant.purpose)],
      canFact(grant.capabilities),
      untilFact(grant.expires_at),
      [common.created, ...doneBy(world, grant.created_at, grant.created_by)],
    ],
  });
  place.append(...bar.nodes, ceiling, rows.node);
  return {
    wants: () => ["list/grants", "list/delegation"],
    show() {
      bar.show();
      const days = store.get("delegation", ONE)?.ceiling_days;
      setText(ceiling, days === undefined ? "" : say.ceiling(common.days(days)));
      rows.show(store.get("list", "grants") ? store.all("grant").reverse() : null);
    },
    close: rows.close,
  };
}
