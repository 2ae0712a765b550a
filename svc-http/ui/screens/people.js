// Members: presence, last event, claims, usage and skills of each.
//
// Guarantees: 5,000 members scroll smoothly; nothing moves under a pointer or the focus; the filter is part
// of the address; presence is polled while the screen is open. Not here: details of one member.

import { fold } from "../pure/filter.js";
import { shownText } from "../pure/shown.js";
import { people as say } from "../strings/en.js";
import { actionOf } from "../actions.js";
import { actionButton } from "../act.js";
import { openMenu } from "../later.js";
import { progressOf, showProgress } from "../reading.js";
import { hrefTo } from "../names.js";
import {
  PEOPLE_LISTS,
  PRESENCE_EVERY,
  TONES,
  claimsOf,
  heardText,
  lastEvents,
  lastOf,
  presenceOf,
  standingOf,
  usageByMember,
  usedText,
} from "../people.js";
import { h } from "../view/node.js";
import { makePerson, updatePerson } from "../view/person.js";
import { searchField, whenTyped } from "../view/search.js";
import { createWindow, focusRow } from "../view/window.js";
import { alongWindow, moveKeys } from "./list-keys.js";

/** @typedef {import("../world.js").World} World */

const MEMBERS = ["list/members"];

const { compare } = new Intl.Collator(undefined, { numeric: true });

/**
 * @param {HTMLElement} root
 * @param {World} world
 * @param {import("../router.js").Place} place
 * @returns {import("../screens.js").Open}
 */
export function open(root, world, place) {
  const { store } = world;
  const wish = world.reads.wish();
  wish.set(PEOPLE_LISTS);
  lastEvents(world);
  let usage = usageByMember(world);
  const input = searchField("filter", say.filter, say.filterHint);
  const which = h(
    "select",
    { name: "which", "aria-label": say.which },
    ...Object.entries(say.kinds).map(([value, label]) => h("option", { value }, label)),
  );
  const create = actionButton(
    world,
    /** @type {import("../actions.js").Action} */ (actionOf("create_agent")),
    () => ({ id: world.me.workspace_id }),
  );
  const told = h("p.quiet", { hidden: true });
  const list = createWindow({
    label: say.label,
    waits: say.waits,
    height: () => parseFloat(getComputedStyle(root).getPropertyValue("--person-height")) + 8,
    key: (/** @type {string} */ id) => id,
    make: () => makePerson({ openMenu: menuOf, menuLabel: say.actions }),
    update: draw,
  });
  root.classList.add("people");
  root.append(
    h(
      "div.row.people-head",
      h("h1", say.title),
      h("div.grow.filter", input),
      which,
      h("span.end"),
      create.node,
    ),
    told,
    list.root,
  );

  /** @param {string} id */
  const menuOf = (id) => openMenu(world, "member", "member", id, world.names.memberText(id));

  /** @param {HTMLElement} node @param {string} id */
  function draw(node, id) {
    const member = store.get("member", id);
    if (!member) return;
    const { status, row } = presenceOf(world, id);
    const last = lastOf(world, id);
    const claims = claimsOf(world, id);
    const name = shownText(member.display_name || member.handle);
    updatePerson(node, {
      id,
      href: hrefTo("member", { id }),
      name,
      handle: `@${shownText(member.handle)}`,
      kind: say.kind[member.kind] ?? member.kind,
      presence: { text: say.presence[status] ?? status, tone: TONES[status] ?? null },
      standing: standingOf(member),
      note: row?.note ? shownText(row.note) : heardText(world, id),
      last: last.text,
      isSilent: last.isSilent,
      claims: claims ? say.claims(claims) : say.noClaims,
      used: usedText(usage.get(id)),
      skills: member.skills?.length ? member.skills.join(", ") : say.noSkills,
      menu: name,
    });
  }

  /** @param {any} member */
  function fits(member) {
    const kind = which.value;
    if (kind === "former" ? member.active !== false : member.active === false) return false;
    if (kind === "online") return store.get("online", member.id) !== undefined;
    if (kind === "frozen") return Boolean(member.frozen);
    return kind === "" || kind === "former" || member.kind === kind;
  }

  /** @param {any} member @param {string[]} wanted */
  function hasWords({ handle, display_name, skills = [] }, wanted) {
    const has = fold(`${handle} ${display_name ?? ""} ${skills.join(" ")}`);
    return wanted.every((word) => has.includes(word));
  }

  function drawAll() {
    const wanted = fold(input.value).split(/\s+/).filter(Boolean);
    const found = store.all("member").filter((one) => fits(one) && hasWords(one, wanted));
    // Members are sorted by name, because an order by changing data would never be stable.
    found.sort((one, other) => compare(nameOf(one), nameOf(other)));
    list.setItems(found.map(({ id }) => id));
    const text = found.length ? "" : say.none;
    showProgress(world, told, progressOf(world, MEMBERS), { reading: say.reading, text });
    create.update();
  }

  /** @param {any} member */
  const nameOf = ({ display_name, handle }) => String(display_name || handle);

  function note() {
    const query = new URLSearchParams();
    if (input.value) query.set("q", input.value);
    if (which.value) query.set("show", which.value);
    world.note(query.size ? `?${query}` : "");
    drawAll();
  }

  /** @param {URLSearchParams} query */
  function take(query) {
    if (document.activeElement !== input) input.value = query.get("q") ?? "";
    const asked = query.get("show") ?? "";
    which.value = asked in say.kinds ? asked : "";
  }

  whenTyped(input, note);
  which.addEventListener("change", note);
  take(place.query);

  const clock = setInterval(() => {
    if (!document.hidden) world.reads.again("list/online");
    list.redraw();
  }, PRESENCE_EVERY);

  const unbind = world.keys.bind({
    ...moveKeys(alongWindow(list, "data-member")),
    "/": () => input.focus(),
    Escape: () => {
      if (document.activeElement !== input) return false;
      input.blur();
    },
  });

  return {
    show(changes) {
      if (!changes || changes.dirty.has("list/usage")) usage = usageByMember(world);
      if (!changes || [...changes.dirty].some(concerns)) drawAll();
      else if (changes.events.length > 0) list.redraw();
    },
    focusOn: (id) => focusRow(list, id),
    moved({ query }) {
      take(query);
      drawAll();
    },
    close() {
      clearInterval(clock);
      unbind();
      list.close();
      wish.close();
    },
  };
}

/** @param {string} key */
const concerns = (key) =>
  /^(member|online|busy|usage_sum)\/|^list\/(members|online|occupancy|usage|last)$|^live\//.test(key);
