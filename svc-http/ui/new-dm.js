// Opens a form for a new direct message, and then its conversation.
//
// Not here: the conversation (screens/dms.js).

import { openForm } from "./forms.js";
import { hrefTo } from "./names.js";
import { actionNames } from "./strings/en.js";

/** @param {import("./world.js").World} world */
export function openNewDm(world) {
  return openForm(world, {
    title: actionNames.open_dm ?? "",
    op: "open_dm",
    only: ["member_ids"],
    async send(input) {
      const about = `workspace/${world.me.workspace_id}`;
      const write = await world.outbox.send({ action: "open_dm", op: "open_dm", about, input });
      if (write.problem || !write.body) return write.problem;
      const { id } = write.body;
      if (!world.store.get("dm", id)) {
        world.store.put("dm", { ...write.body, unread: 0, last_lsn: null, lsn: write.lsn }, write.lsn);
      }
      const href = hrefTo("dms", {}, `?c=${id}#say`);
      if (href) world.go(href);
      return null;
    },
  });
}
