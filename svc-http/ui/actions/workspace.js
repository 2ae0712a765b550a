// Actions on the workspace: creating a task.
//
// Not here: its administration (admin.js).

import { openNewTask } from "../later.js";

/** @typedef {import("../actions.js").Action} Action */

/** @type {Action[]} */
export const workspace = [
  {
    id: "create_thread",
    op: "create_thread",
    on: "workspace",
    key: "c",
    isMain: true,
    isFirst: true,
    when: () => true,
    fill: () => ({}),
    open: (world, { stays, channelId }) => void openNewTask(world, { stays, channelId }),
    leaves: (event, input) => event.kind === "ThreadCreated" && event.payload.title === input.title,
  },
];
