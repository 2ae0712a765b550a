// Name, handle and skills of the signed-in member, and the mail address.
//
// Not here: what administrators set for a member.

import { hrefTo } from "../../names.js";
import { settings as say } from "../../strings/en.js";
import { actionBar } from "../../act.js";
import { toldBeside } from "../../told.js";
import { factList } from "../admin/rows.js";
import { h, link, setText } from "../../view/node.js";

/** @typedef {import("../../world.js").World} World */

/** @param {string} title @param {...(Node | string)} content */
const section = (title, ...content) =>
  h("section.panel", { "aria-label": title }, h("div.panel-body.stack", h("h2", title), ...content));

/** @param {World} world */
export function youPart(world) {
  const facts = factList();
  const buttons = h("div.row");
  const told = h("div");
  const bar = actionBar(world, "member", buttons, ({ id }) => id === "update_me" || id === "set_skills");
  const beside = toldBeside(world, told);
  const href = hrefTo("member", { id: world.me.member_id });
  const page = href ? h("p", link(href, {}, say.page)) : "";
  return {
    node: section(say.you, facts.node, buttons, told, page),
    show() {
      const me = world.store.get("member", world.me.member_id);
      if (!me) return;
      facts.show([
        [say.name, me.display_name ?? say.none],
        [say.handle, me.handle],
        [say.skills, me.skills.join(", ") || say.none],
      ]);
      bar.show(me);
      beside.show(`member/${me.id}`, me);
    },
  };
}

/** @param {World} world @param {() => any} preferences */
export function mailPart(world, preferences) {
  const facts = factList();
  const none = h("p.quiet");
  const buttons = h("div.row");
  const bar = actionBar(world, "preferences", buttons);
  return {
    node: section(say.address, none, facts.node, buttons),
    show() {
      const now = preferences();
      if (!now) return;
      const { delivery } = now;
      setText(none, delivery ? "" : say.noAddress);
      facts.show(delivery ? mailFacts(delivery) : []);
      bar.show(now);
    },
  };
}

/** @param {any} delivery @returns {[string, string][]} */
function mailFacts({ address, pending, mode, suspended, last_error: error }) {
  /** @type {[string, string | null][]} */
  const facts = [
    [say.mailedAt, address],
    [say.pending, pending],
    [say.mode, say.modes[mode] ?? mode],
    [say.mailError, suspended ? say.suspended : error],
  ];
  return facts.flatMap(([name, value]) =>
    value === null ? [] : [/** @type {[string, string]} */ ([name, value])],
  );
}
