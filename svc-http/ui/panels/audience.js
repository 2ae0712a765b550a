// Who can be mentioned in a task.
//
// Promises: of a private channel and a direct message only those who are in it; what is not known yet keeps
// nobody out. Leaves out: whom a text mentions, which the service says.

import { fold } from "../pure/filter.js";
import { canSee } from "../pure/lanes.js";

const CHOICES = 8;
/** Those who are meant by what they do, not by their handle. */
const GROUPS = ["channel", "here"];

/**
 * @param {import("../world.js").World} world
 * @param {() => any} thread
 */
export function createAudience(world, thread) {
  const { store } = world;
  const wish = world.reads.wish();
  let of = "";

  /** Has it read who is in the channel, if not everybody hears what is said there. */
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
    /** Those whom a begun mention may mean. @param {string} text */
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
