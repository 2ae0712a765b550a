// Preview of a task in a dialog: its claim and obstacles, its description, and its latest message.
//
// Not here: everything else, which the task's own screen shows.

import { marked } from "./marked.js";
import { hrefTo } from "./names.js";
import { acting, card, shell } from "./strings/en.js";
import { open as openAbout } from "./panels/about.js";
import { open as openClaim } from "./panels/claim.js";
import { openDialog } from "./view/dialog.js";
import { h, link, setChildren } from "./view/node.js";

/**
 * @param {import("./world.js").World} world
 * @param {string} id
 */
export function openPeek(world, id) {
  const wish = world.reads.wish();
  wish.set([`thread/${id}`, `context/${id}`, `dependencies/${id}`]);
  const claim = h("div.stack");
  const about = h("div.stack");
  const said = h("div.stack.tight");
  const href = hrefTo("task", { id });
  /** The message that is shown. @type {unknown} */
  let drawn;
  const parts = [openClaim(claim, world), openAbout(about, world)];
  const go = href ? h("p", link(href, {}, acting.open)) : "";
  openDialog({
    title: world.names.threadText(id),
    closeLabel: shell.close,
    body: [claim, said, about, go],
    name: "peek",
    onClose: () => (unwatch(), wish.close(), clearInterval(clock)),
  });

  /** @param {import("./state/store.js").Changes} [changes] */
  function draw(changes) {
    const thread = world.store.get("thread", id);
    if (!thread) return;
    for (const part of parts) part.show(thread, changes);
    const last = world.store.get("message", world.tasks().latestOf(id));
    if (last === drawn) return;
    drawn = last;
    if (!last?.body || last.withdrawn) return setChildren(said, []);
    setChildren(said, [
      h("p.quiet.small", card.said(world.names.memberText(last.author_id), "")),
      marked(world, last.body, { of: `message/${last.id}`, channel: last.channel_id }),
    ]);
  }

  const unwatch = world.store.watch(draw);
  const clock = setInterval(() => draw(), 1_000);
  draw();
}
