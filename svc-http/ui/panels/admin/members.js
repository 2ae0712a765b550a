// Members and agents of the workspace, for administrators.
//
// Not here: what each member does (screens/people.js).

import { hrefTo } from "../../names.js";
import { standingOf } from "../../people.js";
import { adminParts as say, people } from "../../strings/en.js";
import { h, link, words } from "../../view/node.js";
import { openRows, timeText } from "./rows.js";
import { workspaceBar } from "./part.js";

/** @type {import("./part.js").OpenAdminPart} */
export function open(place, world) {
  const { store } = world;
  const bar = workspaceBar(world, "create_agent");
  const href = hrefTo("people");
  const rows = openRows(world, {
    on: "member",
    label: people.label,
    none: people.none,
    marks: { "data-member": "id" },
    isOver: ({ active }) => active === false,
    endedLabel: say.former,
    title: ({ id, handle }) => [world.names.member(id), " ", h("span.quiet", words(`@${handle}`))],
    chips: (member) => [standingOf(member) ?? []].flat(),
    facts: (member) => [
      [people.kind[member.kind] ?? member.kind, `${say.joined} ${timeText(member.created_at)}`],
      ...tokensOf(member),
    ],
  });
  place.append(...bar.nodes, href ? h("p", link(href, {}, say.presence)) : "", rows.node);

  /** @param {any} member @returns {[string, Node][]} */
  function tokensOf({ id }) {
    const tokens = hrefTo("admin", {}, `?part=tokens&member=${id}`);
    return tokens && world.may("list_tokens") ? [[say.tokensOf, link(tokens, {}, say.tokens)]] : [];
  }

  return {
    wants: () => ["list/frozen"],
    show() {
      bar.show();
      rows.show(store.all("member").sort((one, other) => one.handle.localeCompare(other.handle)));
    },
    close: rows.close,
  };
}
