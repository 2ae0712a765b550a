// Name, handle and id of the workspace.
//
// Not here: purging and erasing the workspace, which the palette offers.

import { adminParts as say } from "../../strings/en.js";
import { factList } from "./rows.js";
import { workspaceBar } from "./part.js";

/** @type {import("./part.js").OpenAdminPart} */
export function open(place, world) {
  const facts = factList();
  const bar = workspaceBar(world, "update_workspace", "set_workspace_handle");
  place.append(facts.node, ...bar.nodes);
  return {
    wants: () => [`workspace/${world.me.workspace_id}`],
    show() {
      const workspace = world.store.get("workspace", world.me.workspace_id);
      if (workspace) {
        facts.show([
          [say.name, workspace.name],
          [say.handle, workspace.handle ?? say.noHandle],
          [say.id, workspace.id],
        ]);
      }
      bar.show();
    },
  };
}
