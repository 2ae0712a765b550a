// Facts of a task: priority, owner, channel, skills, footprint, tools and creator.
//
// Not here: its claim and its reviews, which have panels of their own.

import { dateTime } from "../pure/format.js";
import { ms } from "../pure/clock.js";
import { parts as say, priorityText } from "../strings/en.js";
import { actionBar } from "../act.js";
import { h, setChildren, words } from "../view/node.js";

const OFFERED = [
  ...[
    "set_thread_priority",
    "set_thread_owner",
    "set_required_skills",
    "set_thread_footprint",
    "update_thread",
  ],
  ...["follow", "unfollow", "cancel_thread"],
];

/**
 * @param {HTMLElement} place
 * @param {import("../world.js").World} world
 * @returns {import("../panels.js").OpenPanel}
 */
export function open(place, world) {
  const list = h("dl.facts");
  const buttons = h("div.row");
  const bar = actionBar(world, "thread", buttons, ({ id }) => OFFERED.includes(id));
  place.append(list, buttons);

  /** @param {string} name @param {...(Node | string)} value */
  const fact = (name, ...value) => [h("dt", name), h("dd", ...value)];

  /** @param {any} thread */
  function facts(thread) {
    const { footprint, required_skills: skills, tools } = thread;
    const mode = footprint ? (footprint.mode === "shared" ? say.shared : say.exclusive) : "";
    const items = (footprint?.items ?? []).map((/** @type {any} */ { kind, value }) =>
      h("li", h("bdi.mono", `${kind} ${value}`)),
    );
    return [
      ...fact(say.priority, priorityText(thread.priority)),
      ...fact(say.owner, world.names.member(thread.owner_id)),
      ...fact(say.channel, world.names.channel(thread.channel_id)),
      ...fact(say.skills, skills.length ? words(skills.join(", ")) : say.none),
      ...fact(
        say.touches,
        ...(footprint ? [words(footprint.repo ?? ""), " ", mode, h("ul", ...items)] : [say.none]),
      ),
      ...(tools.length ? fact(say.tools, words(tools.join(", "))) : []),
      ...fact(
        say.created,
        say.by(dateTime(ms(thread.created_at) ?? 0)),
        world.names.member(thread.created_by),
      ),
    ];
  }

  let drawn = "";
  return {
    show(thread, changes) {
      const state = `${thread.of} ${thread.priority} ${thread.owner_id}`;
      const isNamed = [...(changes?.dirty ?? [])].some((key) => /^(member|channel)\//.test(key));
      if (state !== drawn || isNamed) setChildren(list, facts(thread));
      drawn = state;
      bar.show(thread);
    },
  };
}
