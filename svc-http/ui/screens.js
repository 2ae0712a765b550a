// The table of the screens, from which menus, keys and addresses are built.

/** @typedef {import("./world.js").World} World */
/** @typedef {import("./state/store.js").Changes} Changes */
/**
 * An open screen. `show` draws the changes, or everything if called without them; `moved` is called when the
 * address changes within the screen; `focusOn` focuses a row of its list, and returns whether the row exists.
 *
 * @typedef {{show: (changes?: Changes) => void, close: () => void, moved?: (place: import("./router.js").Place) => void,
 *   focusOn?: (id: string) => boolean}} Open
 */
/** @typedef {(root: HTMLElement, world: World, place: import("./router.js").Place) => Open} OpenScreen */
/**
 * @typedef {{
 *   id: string,
 *   path: string,
 *   key: string | null,
 *   isPlace: boolean,
 *   needs: string,
 *   load: () => Promise<{open: OpenScreen}>,
 * }} Screen `key` opens the screen after `g`; `isPlace`: listed in the navigation; `needs`: the operation
 * without which the screen has nothing to show.
 */

/** @type {Screen[]} */
export const screens = [
  {
    id: "now",
    path: "",
    key: "n",
    isPlace: true,
    needs: "get_workspace_context",
    load: () => import("./screens/now.js"),
  },
  {
    id: "board",
    path: "board",
    key: "b",
    isPlace: true,
    needs: "list_workspace_threads",
    load: () => import("./screens/board.js"),
  },
  {
    id: "inbox",
    path: "inbox",
    key: "i",
    isPlace: true,
    needs: "list_inbox",
    load: () => import("./screens/inbox.js"),
  },
  {
    id: "dms",
    path: "dms",
    key: "d",
    isPlace: true,
    needs: "list_dms",
    load: () => import("./screens/dms.js"),
  },
  {
    id: "channel",
    path: "c/{id}",
    key: null,
    isPlace: false,
    needs: "get_channel",
    load: () => import("./screens/channel.js"),
  },
  {
    id: "approval",
    path: "approvals/{link}",
    key: null,
    isPlace: false,
    needs: "get_approval_gate",
    load: () => import("./screens/approval.js"),
  },
  {
    id: "task",
    path: "t/{id}",
    key: null,
    isPlace: false,
    needs: "get_thread",
    load: () => import("./screens/task.js"),
  },
  {
    id: "conflicts",
    path: "conflicts",
    key: "x",
    isPlace: true,
    needs: "list_deferred_threads",
    load: () => import("./screens/conflicts.js"),
  },
  {
    id: "memory",
    path: "memory",
    key: "m",
    isPlace: true,
    needs: "list_memory_blocks",
    load: () => import("./screens/memory.js"),
  },
  {
    id: "log",
    path: "log",
    key: "l",
    isPlace: true,
    needs: "list_events",
    load: () => import("./screens/log.js"),
  },
  {
    id: "audit",
    path: "audit",
    key: "u",
    isPlace: true,
    needs: "list_audit",
    load: () => import("./screens/audit.js"),
  },
  {
    id: "people",
    path: "people",
    key: "p",
    isPlace: true,
    needs: "list_members",
    load: () => import("./screens/people.js"),
  },
  {
    id: "member",
    path: "m/{id}",
    key: null,
    isPlace: false,
    needs: "get_member",
    load: () => import("./screens/member.js"),
  },
  {
    id: "admin",
    path: "admin",
    key: "a",
    isPlace: false,
    needs: "get_workspace",
    load: () => import("./screens/admin.js"),
  },
  {
    id: "settings",
    path: "settings",
    key: "s",
    isPlace: false,
    needs: "whoami",
    load: () => import("./screens/settings.js"),
  },
];
