// Sections about a member: claims, recent events, presence, usage, skills and profile.
//
// Guarantees: a section is redrawn only when its data changes. Not here: the actions on a member.

import { leaseOf } from "../cards.js";
import { hrefTo } from "../names.js";
import { lastEvents, presenceOf, reportedText, timeOf } from "../people.js";
import { ms } from "../pure/clock.js";
import { dateTime, number, relative } from "../pure/format.js";
import { isLive } from "../pure/lanes.js";
import { eventParts, member as say, people } from "../strings/en.js";
import { plainWords } from "../view/plain.js";
import { h, link, setAttr, setChildren, setText, words } from "../view/node.js";
import { nodesOf } from "../view/parts.js";

/** @typedef {import("../world.js").World} World */
/**
 * @typedef {{node: HTMLElement, show: (member: any) => void, tick?: (member: any) => void}} MemberPart `tick`
 * updates what depends on the time.
 */

const EVENTS = 12;

/** @param {World} world @param {string} id @returns {{main: MemberPart[], side: MemberPart[]}} */
export function memberParts(world, id) {
  return {
    main: [claims(world, id), events(world, id)],
    side: [presence(world, id), usage(world, id), skills(world), about(world)],
  };
}

/** @param {string} name @param {string} title @param {...Node} content */
const section = (name, title, ...content) =>
  h(
    "section.panel",
    { "data-panel": name, "aria-label": title },
    h("div.panel-body.stack", h("h2", title), ...content),
  );

/** @param {string} name @param {...(Node | string)} value */
const fact = (name, ...value) => [h("dt", name), h("dd", ...value)];

/**
 * Returns a function that calls `draw` only when the values that `seen` returns have changed.
 *
 * @param {() => unknown[]} seen
 * @param {() => void} draw
 */
function changed(seen, draw) {
  /** @type {unknown[] | null} */
  let last = null;
  return () => {
    const now = seen();
    if (last && now.length === last.length && now.every((one, at) => one === last?.[at])) return;
    last = now;
    draw();
  };
}

/** @param {World} world @param {string} id @returns {MemberPart} */
function presence(world, id) {
  const list = h("dl.facts");
  const hint = h("p.quiet.small");
  const { store } = world;
  const draw = changed(
    () => [
      store.get("online", id),
      store.get("list", "online") !== undefined,
      store.get("thread", store.get("online", id)?.thread_id),
    ],
    () => {
      const { status, row } = presenceOf(world, id);
      setText(hint, row ? say.hung : status === "offline" ? say.offline : "");
      if (!row) return setChildren(list, fact(say.status, people.presence[status] ?? status));
      const at = ms(row.seen_at) ?? 0;
      setChildren(list, [
        ...fact(say.status, people.presence[row.status] ?? row.status),
        ...(row.note ? fact(say.note, words(row.note)) : []),
        ...(row.thread_id ? fact(say.worksOn, world.names.thread(row.thread_id)) : []),
        ...fact(say.heard, world.names.time(at)),
      ]);
    },
  );
  return { node: section("presence", say.presence, list, hint), show: draw };
}

/** @param {World} world @param {string} id @returns {MemberPart} */
function events(world, id) {
  const list = h("ol.stack.tight");
  const none = h("p.quiet");
  const last = lastEvents(world);
  const draw = changed(
    () => [
      ...[last.of(id)[0], last.of(id).length, last.from(), world.store.count("member")],
      ...last.of(id).map(({ payload }) => world.store.get("thread", payload.$chain.thread_id)),
    ],
    () => {
      const found = last.of(id).slice(0, EVENTS);
      setChildren(
        list,
        found.map((event) => eventRow(world, event)),
      );
      const from = last.from();
      const isNone = found.length === 0 && from !== null;
      setText(none, !isNone ? "" : from <= 1 ? say.noEvents : say.noEventsSince(number(from)));
    },
  );
  return {
    node: section("events", say.events, list, none),
    show: draw,
    tick() {
      for (const time of list.querySelectorAll("time[data-ago]")) {
        const at = Date.parse(time.getAttribute("datetime") ?? "");
        setText(time, relative(Math.min(at, world.now()), world.now()));
      }
    },
  };
}

/** @param {World} world @param {import("../pure/types.js").LogEvent} event */
function eventRow(world, event) {
  const at = timeOf(event);
  const when = h(
    "time",
    { datetime: new Date(at).toISOString(), title: dateTime(at), "data-ago": true },
    relative(Math.min(at, world.now()), world.now()),
  );
  const href = hrefTo("log", {}, `#${event.lsn}`);
  const { thread_id: thread } = event.payload.$chain;
  return h(
    "li.row.did-row",
    { "data-event": event.lsn },
    h(
      "span.grow",
      ...nodesOf(eventParts(event), world.names),
      ...(thread ? [": ", world.names.thread(thread)] : []),
    ),
    href ? link(href, { class: "quiet small" }, when) : h("span.quiet.small", when),
  );
}

/** @param {World} world @param {string} id @returns {MemberPart} */
function claims(world, id) {
  const list = h("ul.stack.tight");
  const none = h("p.quiet");
  const { store } = world;
  const held = () =>
    store.all("thread").filter((thread) => thread.assignee_id === id && isLive(/** @type {any} */ (thread)));
  /** @type {Map<string, HTMLElement>} */
  let lefts = new Map();

  function tick() {
    for (const [thread, node] of lefts) {
      const lease = leaseOf(world, store.get("thread", thread) ?? {});
      setText(node, lease?.text);
      setAttr(node, "data-left", lease?.state);
    }
  }

  const draw = changed(
    () => [store.get("held", id) !== undefined, ...held()],
    () => {
      const threads = held();
      lefts = new Map(threads.map((thread) => [thread.id, h("span.left")]));
      setChildren(
        list,
        threads.map((thread) =>
          h("li.row", h("span.grow", world.names.thread(thread.id)), lefts.get(thread.id) ?? ""),
        ),
      );
      setText(none, threads.length === 0 && store.get("held", id) ? say.noClaims : "");
      tick();
    },
  );
  return { node: section("claims", say.claims, list, none), show: draw, tick };
}

/** @param {World} world @param {string} id @returns {MemberPart} */
function usage(world, id) {
  const list = h("dl.facts");
  const none = h("p.quiet");
  const { store } = world;
  const sums = () => store.all("usage_sum").filter(({ member_id }) => member_id === id);
  const draw = changed(
    () => [store.get("list", "usage") !== undefined, ...sums()],
    () => {
      const rows = sums().sort((one, other) => other.tokens - one.tokens);
      setChildren(
        list,
        rows.flatMap((row) => fact(row.model ?? say.noModel, reportedText(row))),
      );
      setText(none, rows.length === 0 && store.get("list", "usage") ? say.noUsage : "");
    },
  );
  return { node: section("usage", say.usage, list, none), show: draw };
}

/** @param {World} world @returns {MemberPart} */
function skills(world) {
  const list = h("ul.row");
  const none = h("p.quiet");
  /** @type {any} */
  let member;
  const draw = changed(
    () => [member?.skills, world.store.get("list", "skills")],
    () => {
      const has = member?.skills ?? [];
      setChildren(
        list,
        has.map((/** @type {string} */ skill) => {
          const isGovernance = Boolean(world.store.get("skill", skill)?.governance);
          const chip = h("span.chip", { "data-tone": isGovernance ? "review" : null }, words(skill));
          return h("li", chip, isGovernance ? h("span.quiet.small", " ", say.governance) : null);
        }),
      );
      setText(none, has.length === 0 ? say.noSkills : "");
    },
  );
  return {
    node: section("skills", say.skills, list, none),
    show(now) {
      member = now;
      draw();
    },
  };
}

/** @param {World} world @returns {MemberPart} */
function about(world) {
  const list = h("dl.facts");
  const links = h("p", { hidden: true });
  /** @type {any} */
  let member;
  const draw = changed(
    () => [member, world.store.get("freeze", member?.id)],
    () => {
      const freeze = world.store.get("freeze", member.id);
      setChildren(list, [
        ...fact(say.kind, people.kind[member.kind] ?? member.kind),
        ...fact(say.joined, dateTime(ms(member.created_at) ?? 0)),
        ...(member.changed_at ? fact(say.renamed, dateTime(ms(member.changed_at) ?? 0)) : []),
        ...(freeze
          ? fact(
              people.frozen,
              say.frozenBy,
              world.names.member(freeze.frozen_by),
              ", ",
              dateTime(ms(freeze.frozen_at) ?? 0),
            )
          : []),
        ...(freeze
          ? fact(say.reason, freeze.reason ? plainWords(freeze.reason) : say.noReason)
          : []),
      ]);
      const href = world.may("list_tokens") ? hrefTo("admin", {}, `?part=tokens&member=${member.id}`) : null;
      links.hidden = href === null;
      setChildren(links, href ? [link(href, {}, say.tokensLink)] : []);
    },
  );
  return {
    node: section("about", say.about, list, links),
    show(now) {
      member = now;
      draw();
    },
  };
}
