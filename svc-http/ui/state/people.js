// The members and channels of the workspace, which nearly every screen names.
//
// Promises: they are read once a session, whole up to a limit; one that is named beyond it is read when it is
// shown. Leaves out: how a name looks.

/**
 * @param {{store: import("./store.js").Store, reads: import("./reads.js").Reads}} world
 */
export function readNames({ store, reads }) {
  for (const [kind, op] of Object.entries({ member: "list_members", channel: "list_channels" })) {
    if (reads.may(op)) void read(kind, op, 0);
  }

  /** @param {string} kind @param {string} op @param {number} failures */
  async function read(kind, op, failures) {
    try {
      const { body, lsn } = await reads.pages(op, {}, 5_000);
      store.put(kind, body.items, lsn);
    } catch {
      if (failures < 5) setTimeout(() => void read(kind, op, failures + 1), 2_000 * 2 ** failures);
    }
  }
}
