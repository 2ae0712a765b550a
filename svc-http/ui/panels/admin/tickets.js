// Share tickets, which let outsiders read one channel.
//
// Guarantees: the secret of a ticket is shown once, when it is issued. Not here: the shared content.

import { admin as common, adminParts as say } from "../../strings/en.js";
import { doneBy, isOverNow, openRows, standingOf, untilFact } from "./rows.js";
import { workspaceBar } from "./part.js";

/** @type {import("./part.js").OpenAdminPart} */
export function open(place, world) {
  const bar = workspaceBar(world, "create_share_ticket");
  const rows = openRows(world, {
    on: "ticket",
    label: common.parts.tickets?.name ?? "",
    none: say.noTickets,
    marks: { "data-ticket": "id" },
    isOver: isOverNow(world),
    title: ({ channel_id, artifact_shas }) => [
      say.shares,
      world.names.channel(channel_id),
      artifact_shas.length ? ` ${say.artifacts(artifact_shas.length)}` : "",
    ],
    chips: (ticket) => [standingOf(world, ticket) ?? []].flat(),
    facts: (ticket) => [
      untilFact(ticket.expires_at),
      [common.created, ...doneBy(world, ticket.created_at, ticket.owner_id)],
    ],
  });
  place.append(...bar.nodes, rows.node);
  return {
    wants: () => ["list/tickets"],
    show() {
      bar.show();
      const { store } = world;
      rows.show(store.get("list", "tickets") ? store.all("ticket").reverse() : null);
    },
    close: rows.close,
  };
}
