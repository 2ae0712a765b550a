// Filter of the log: typed text with a member or a channel, kinds of events, and a task.
//
// Guarantees: the whole filter is part of the address; an unknown name is reported, and matches nothing. Not
// here: matching (pure/filter.js).

import { parseTyped, typed, noFilter } from "../pure/filter.js";
import { number } from "../pure/format.js";
import { log as say } from "../strings/en.js";
import { NOBODY, idNamed } from "../state/named.js";
import { button, h, setChildren, setText, show } from "../view/node.js";
import { searchField, whenTyped } from "../view/search.js";


/**
 * @param {import("../world.js").World} world
 * @param {URLSearchParams} params
 * @param {() => void} changed
 */
export function openLogFilter(world, params, changed) {
  const { store } = world;
  const input = searchField("filter", say.filter, say.filterHint);
  const summary = h("summary");
  const choices = h("div.stack.tight.kinds");
  const kinds = h("details.account.kinds-menu", summary, h("div.menu-body", choices));
  const root = h("div.row.grow.log-filter", h("div.grow.filter", input), kinds);
  const about = h("p.row", { hidden: true });
  let now = read(params);
  let wanted = resolved();

  /** Returns the filter with names replaced by ids. */
  function resolved() {
    const { text, kinds: chosen, thread } = now;
    const channel = idNamed(store, "channel", now.channel, ({ name }) => name);
    const member = idNamed(store, "member", now.member, ({ handle }) => handle);
    return { text, kinds: chosen, thread, channel, member };
  }

  function draw() {
    if (document.activeElement !== input) input.value = typed({ ...noFilter(), ...now });
    setText(summary, now.kinds.size ? say.kindsChosen(now.kinds.size) : say.allKinds);
    const missing =
      wanted.channel === NOBODY
        ? say.noSuchChannel(now.channel)
        : wanted.member === NOBODY
          ? say.noSuchMember(now.member)
          : "";
    show(about, now.thread !== "" || missing !== "");
    setChildren(about, [
      missing,
      ...(now.thread
        ? [
            h("span", say.ofThread, world.names.thread(now.thread)),
            button(say.dropThread, () => take({ thread: "" }), { class: "link" }),
          ]
        : []),
    ]);
  }

  /** @param {Partial<typeof now>} change */
  function take(change) {
    now = { ...now, ...change };
    wanted = resolved();
    draw();
    changed();
  }

  whenTyped(input, () => {
    const { text, channel, member } = parseTyped(input.value);
    take({ text, channel, member });
  });

  async function fillKinds() {
    try {
      const { body } = await world.ask("get_kind_census");
      const counted = new Map(body.items.map((/** @type {any} */ { kind, count }) => [kind, count]));
      for (const kind of now.kinds) if (!counted.has(kind)) counted.set(kind, 0);
      choices.replaceChildren(...[...counted].map(([kind, count]) => choice(kind, count)));
    } catch {
      choices.replaceChildren(h("p.quiet", say.noKinds));
    }
  }

  /** @param {string} kind @param {number} count */
  function choice(kind, count) {
    const box = h("input", { type: "checkbox", name: "kind", value: kind, checked: now.kinds.has(kind) });
    box.addEventListener("change", () => {
      const chosen = new Set(now.kinds);
      if (box.checked) chosen.add(kind);
      else chosen.delete(kind);
      take({ kinds: chosen });
    });
    return h("label.row.one-line", box, h("span.mono", kind), h("span.quiet.end", number(count)));
  }

  const leaveMenu = (/** @type {Event} */ { target }) => {
    if (kinds.open && target instanceof Node && !kinds.contains(target)) kinds.open = false;
  };
  kinds.addEventListener("toggle", () => kinds.open && void fillKinds());
  document.addEventListener("click", leaveMenu);
  draw();

  return {
    root,
    about,
    wanted: () => wanted,
    isKnown: () => wanted.channel !== NOBODY && wanted.member !== NOBODY,
    /** Returns the filter as a query with its `?`; empty without a filter. */
    query() {
      const query = new URLSearchParams();
      for (const name of NAMES) if (now[name]) query.set(name, now[name]);
      if (now.kinds.size) query.set("kind", [...now.kinds].sort().join());
      return query.size ? `?${query}` : "";
    },
    /**
     * Takes the filter from a new address.
     *
     * @param {URLSearchParams} next
     * @returns {boolean} Whether the filter has changed.
     */
    set(next) {
      const before = this.query();
      now = read(next);
      wanted = resolved();
      draw();
      return this.query() !== before;
    },
    /**
     * Resolves names that may have been loaded since.
     *
     * @returns {boolean} Whether the resolved filter has changed.
     */
    show() {
      const before = wanted;
      wanted = resolved();
      draw();
      return before.channel !== wanted.channel || before.member !== wanted.member;
    },
    focus: () => (input.focus(), input.select()),
    /** Leaves the field or the menu. @returns {boolean} Whether either had the focus or was open. */
    leave() {
      if (kinds.open) {
        kinds.open = false;
        summary.focus();
        return true;
      }
      if (document.activeElement !== input) return false;
      input.blur();
      return true;
    },
    close() {
      document.removeEventListener("click", leaveMenu);
    },
  };
}

/** @type {("text" | "channel" | "member" | "thread")[]} */
const NAMES = ["text", "channel", "member", "thread"];

/** @param {URLSearchParams} params */
function read(params) {
  const [text = "", channel = "", member = "", thread = ""] = NAMES.map((name) => params.get(name) ?? "");
  const kinds = new Set((params.get("kind") ?? "").split(",").filter(Boolean));
  return { text, channel, member, thread, kinds };
}
