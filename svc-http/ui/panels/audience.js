// Members who can be mentioned in a task.
//
// Guarantees: in a private channel or a direct message, only its members are offered; while the membership is
// not loaded, all are. Not here: whom a text mentions, which the server decides.

import { fold } from "../pure/filter.js";
import { canSee } from "../pure/lanes.js";

const CHOICES = 8;
/** Mentions of groups instead of single members. */
const GROUPS = ["channel", "here"];

/**
 * @param {import("../world.js").World} world
 * @param {() => any} thread
 */
export function createAudience(world, thread) {
  const { store } = world;
  const wish = world.reads.wish();
  let of = "";

  /** Loads the members of the channel if the channel is private. */
  function look() {
    const id = thread()?.channel_id;
    if (!id) return;
    const isClosed = store.get("channel", id)?.private;
    const keys = [`channel/${id}`, ...(isClosed ? [`channel_members/${id}`] : [])];
    if (keys.join() !== of) wish.set(keys);
    of = keys.join();
  }

  /** @returns {(member: any) => boolean} */
  function hears() {
    const id = thread()?.channel_id;
    const members = store.get("channel_members", id)?.items;
    const channel = members ? store.get("channel", id) : undefined;
    const inside = new Set((members ?? []).map((/** @type {any} */ { member_id }) => member_id));
    return (member) => canSee(member, channel, inside);
  }

  return {
    look,
    /** Finds the members and groups that a partly typed mention can mean. @param {string} text */
    find(text) {
      const wanted = fold(text);
      const isHeard = hears();
      const found = GROUPS.filter((name) => name.startsWith(wanted)).map((name) => ({
        id: name,
        text: name,
        label: `@${name}`,
      }));
      const members = [];
      for (const member of store.all("member")) {
        if (members.length >= CHOICES) break;
        const { id, handle, display_name } = member;
        const fits = fold(handle).includes(wanted) || fold(display_name ?? "").includes(wanted);
        if (!fits || !isHeard(member)) continue;
        members.push({ id, text: handle, label: display_name ? `${display_name} @${handle}` : `@${handle}` });
      }
      return [...members, ...(wanted ? found : [])];
    },
    close: () => wish.close(),
  };
}
