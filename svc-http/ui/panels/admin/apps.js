// Apps of the workspace, each with its installation.
//
// Guarantees: the client secret and the tokens of an app are shown once, on creation. Not here: what apps do.

import { admin as common, adminParts as say } from "../../strings/en.js";
import { h, words } from "../../view/node.js";
import { canFact, doneBy, openRows } from "./rows.js";
import { workspaceBar } from "./part.js";

/** @type {import("./part.js").OpenAdminPart} */
export function open(place, world) {
  const { store } = world;
  const bar = workspaceBar(world, "create_app");
  /** @param {any} app @returns {any} */
  const installed = ({ id }) =>
    store.all("installation").find(({ app_id, revoked_at }) => app_id === id && !revoked_at);
  const rows = openRows(world, {
    on: "app",
    label: common.parts.apps?.name ?? "",
    none: say.noApps,
    marks: { "data-app": "id" },
    also: { on: "installation", of: installed },
    title: ({ name, slug }) => [words(name), " ", h("span.quiet", words(slug))],
    chips: (app) => [
      installed(app) ? { text: say.installed, tone: "ok" } : { text: say.notInstalled, tone: null },
    ],
    facts(app) {
      const installation = installed(app);
      return [
        [common.created, ...doneBy(world, app.created_at, app.created_by)],
        ...(installation ? installationFacts(installation) : []),
      ];
    },
  });

  /** @param {any} installation @returns {[string, ...(Node | string)[]][]} */
  const installationFacts = (installation) => [
    [say.installed, ...doneBy(world, installation.installed_at, installation.installed_by)],
    [say.installedAs, world.names.member(installation.bot_member_id)],
    canFact(installation.granted_capabilities),
  ];

  place.append(...bar.nodes, rows.node);
  return {
    wants: () => ["list/apps", "list/installations"],
    show() {
      bar.show();
      rows.show(store.get("list", "apps") ? store.all("app") : null);
    },
    close: rows.close,
  };
}
