// Limits on dividing tasks into subtasks.
//
// Not here: the existing subtasks.

import { number } from "../../pure/format.js";
import { ONE } from "../../state/entities.js";
import { adminParts as say } from "../../strings/en.js";
import { factList } from "./rows.js";
import { workspaceBar } from "./part.js";

/** @type {import("./part.js").OpenAdminPart} */
export function open(place, world) {
  const facts = factList();
  const bar = workspaceBar(world, "set_spawn_budget");
  place.append(facts.node, ...bar.nodes);
  const limit = (/** @type {number | null} */ value) => (value === null ? say.any : number(value));
  return {
    wants: () => ["list/spawn_budget"],
    show() {
      const budget = world.store.get("spawn_budget", ONE);
      if (budget) {
        facts.show([
          [say.depth, limit(budget.max_depth)],
          [say.children, limit(budget.max_children)],
          [say.tools, limit(budget.max_tools)],
        ]);
      }
      bar.show();
    },
  };
}
