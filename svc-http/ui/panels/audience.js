// Who hears what is said in a task: those whom one can mention, and those whom a mention does not reach.
//
// Promises: of a private channel and a direct message only those who are in it; what is not known yet keeps
// nobody out. Leaves out: what the service says after it was sent, which counts.

import { fold } from "../pure/filter.js";
import { canSee } from "../pure/lanes.js";
import { GROUPS, mentionsIn } from "../pure/mentions.js";

const CHOICES = 8;

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
    /** The mentions of a text that reach nobody. @param {string} text */
    missed(text) {
      if (store.count("member") === 0) return [];
      const isHeard = hears();
      const of = (/** @type {string} */ handle) => store.get("member", world.names.mentions(handle));
      const { known, unknown } = mentionsIn(text, (name) => GROUPS.includes(name) || of(name) !== undefined);
      const deaf = known.filter((name) => !GROUPS.includes(name) && !isHeard(of(name)));
      return [...deaf, ...unknown];
    },
    close: () => wish.close(),
  };
}
