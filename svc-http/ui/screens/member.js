// Member: presence, recent events, claims, usage and skills.
//
// Guarantees: presence and recent events are separate; a section that cannot be read shows the reason and
// does not affect other sections. Not here: the member's tokens, which belong to the administration.

import { PRESENCE_EVERY, TONES, lastEvents, presenceOf, standingOf } from "../people.js";
import { shownText } from "../pure/shown.js";
import { member as say, people } from "../strings/en.js";
import { actionBar } from "../act.js";
import { openMenu } from "../later.js";
import { toldBeside } from "../told.js";
import { memberParts } from "../panels/member.js";
import { leaveField } from "../view/focus.js";
import { button, h, setAttr, setChildren, setText, show, words } from "../view/node.js";

/** @typedef {import("../world.js").World} World */

/** Interval at which countdowns are redrawn, in ms. */
const TICK = 1_000;

/**
 * @param {HTMLElement} root
 * @param {World} world
 * @param {import("../router.js").Place} place
 * @returns {import("../screens.js").Open}
 */
export function open(root, world, place) {
  const id = place.params.id ?? "";
  const key = `member/${id}`;
  const { store, reads } = world;
  const wish = reads.wish();
  wish.set([
    ...[key, `held/${id}`],
    ...["online", "occupancy", "usage", "skills", "frozen"].map((name) => `list/${name}`),
  ]);
  lastEvents(world);
  const title = h("h1");
  const handle = h("p.quiet");
  const presence = h("span.chip");
  const standing = h("span.chip", { hidden: true });
  const more = button(people.actions, () =>
    openMenu(world, "member", "member", id, world.names.memberText(id)),
  );
  const buttons = h("div.row");
  const told = h("div");
  const status = h("p.quiet.later", say.reading);
  const bar = actionBar(world, "member", buttons);
  const beside = toldBeside(world, told);
  const { main, side } = memberParts(world, id);
  const parts = [...main, ...side];
  const nodes = (/** @type {typeof parts} */ some) => some.map(({ node }) => node);
  const body = h("div.task-body", h("div.stack", ...nodes(main)), h("aside.stack", ...nodes(side)));
  const head = h(
    "header.stack.tight",
    h("div.row", title, presence, standing, h("span.end"), buttons, more),
    handle,
    told,
  );
  setAttr(root, "data-member", id);
  root.classList.add("stack");
  root.append(head, status, body);
  head.hidden = true;
  body.hidden = true;

  function showMissing() {
    const standingOfIt = reads.standing(key)?.state;
    if (standingOfIt !== "missing" && standingOfIt !== "refused") return;
    setText(status, standingOfIt === "missing" ? say.missing : say.refused);
    status.classList.remove("later");
    setAttr(status, "role", "alert");
  }

  /** @param {any} member */
  function showHead(member) {
    const name = member.display_name || member.handle;
    if (title.textContent !== name) setChildren(title, [words(name)]);
    const at = `@${member.handle}`;
    if (handle.textContent !== at) setChildren(handle, [words(at)]);
    world.title(shownText(name));
    const { status: now } = presenceOf(world, id);
    setText(presence, people.presence[now] ?? now);
    setAttr(presence, "data-tone", TONES[now]);
    const chip = standingOf(member);
    show(standing, chip !== null);
    setText(standing, chip?.text);
    setAttr(standing, "data-tone", chip?.tone);
  }

  /** @param {import("../state/store.js").Changes} [changes] */
  function draw(changes) {
    // No event updates the claims of one member, so any change of claims reads them again.
    if (changes?.lists.has("occupancy")) reads.again(`held/${id}`);
    const member = store.get("member", id);
    show(status, !member);
    show(head, Boolean(member));
    show(body, Boolean(member));
    if (!member) return showMissing();
    showHead(member);
    for (const part of parts) part.show(member);
    bar.show(member);
    beside.show(key, member);
  }

  const asking = setInterval(() => {
    if (!document.hidden) reads.again("list/online");
  }, PRESENCE_EVERY);
  const clock = setInterval(() => {
    const member = store.get("member", id);
    if (member) for (const part of parts) part.tick?.(member);
  }, TICK);
  const unbind = world.keys.bind({ Escape: () => leaveField() || world.back() });

  return {
    show: draw,
    close() {
      clearInterval(asking);
      clearInterval(clock);
      unbind();
      wish.close();
    },
  };
}
