// Retention periods and limits: those of the workspace, those of the instance, and the effective ones.
//
// Not here: removing data, which the server does.

import { bytes } from "../../pure/format.js";
import { ONE } from "../../state/entities.js";
import { admin as common, adminParts as say } from "../../strings/en.js";
import { h, setChildren } from "../../view/node.js";
import { workspaceBar } from "./part.js";

/** @type {import("./part.js").OpenAdminPart} */
export function open(place, world) {
  const table = h("div.scrolls");
  const pending = h("p.quiet");
  const bar = workspaceBar(world, "set_retention_policy");
  place.append(table, pending, ...bar.nodes);
  /** @type {unknown} */
  let drawn = null;
  return {
    wants: () => ["list/retention"],
    show() {
      const policy = world.store.get("retention", ONE);
      if (policy && policy !== drawn) {
        drawn = policy;
        setChildren(table, [tableOf(policy)]);
        const { messages, events } = policy.pending;
        pending.textContent = messages + events > 0 ? say.pending(messages, events) : say.nothingPending;
      }
      bar.show();
    },
  };
}

/** @param {any} policy */
function tableOf({ workspace, instance, effective }) {
  const heads = [say.what, say.ofWorkspace, say.ofInstance, say.effective];
  const rows = Object.entries(say.kept).map(([field, name]) =>
    h(
      "tr",
      { "data-field": field },
      h("th", { scope: "row" }, name),
      h("td", amount(field, workspace[field], say.unset)),
      h("td", amount(field, instance[field], unlimited(field))),
      h("td", amount(field, effective[field], unlimited(field))),
    ),
  );
  return h(
    "table",
    h("thead", h("tr", ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", ...rows),
  );
}

/** @param {string} field */
const isBytes = (field) => field.endsWith("_bytes");
/** @param {string} field */
const unlimited = (field) => (isBytes(field) ? say.unlimited : say.forever);

/** @param {string} field @param {number | null} value @param {string} none */
function amount(field, value, none) {
  if (value === null) return none;
  return isBytes(field) ? bytes(value) : common.days(value);
}
