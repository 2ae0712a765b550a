// Administration of the workspace, one section at a time.
//
// Guarantees: the section is part of the address; only the data of the open section is read; a session that
// may not read a section sees the missing capability, and the disabled controls with their capabilities. Not
// here: the content of the sections (panels/admin/).

import { admin as say } from "../strings/en.js";
import { hrefTo } from "../names.js";
import { progressOf, showProgress } from "../reading.js";
import { h, link, setAttr, setText, show } from "../view/node.js";

/** @typedef {import("../world.js").World} World */
/** @typedef {import("../panels/admin/part.js").OpenPart} OpenPart */
/**
 * @typedef {{needs: string, load: () => Promise<{open: import("../panels/admin/part.js").OpenAdminPart}>}}
 * Part
 */

/** @type {Record<string, Part>} */
const PARTS = {
  workspace: { needs: "get_workspace", load: () => import("../panels/admin/workspace.js") },
  members: { needs: "list_members", load: () => import("../panels/admin/members.js") },
  tokens: { needs: "list_tokens", load: () => import("../panels/admin/tokens.js") },
  grants: { needs: "list_delegation_grants", load: () => import("../panels/admin/grants.js") },
  apps: { needs: "list_app_installations", load: () => import("../panels/admin/apps.js") },
  tickets: { needs: "list_share_tickets", load: () => import("../panels/admin/tickets.js") },
  retention: { needs: "get_retention_policy", load: () => import("../panels/admin/retention.js") },
  holds: { needs: "list_legal_holds", load: () => import("../panels/admin/holds.js") },
  spawn: { needs: "get_spawn_budget", load: () => import("../panels/admin/spawn.js") },
  export: { needs: "export_workspace", load: () => import("../panels/admin/export.js") },
};

/**
 * @param {HTMLElement} root
 * @param {World} world
 * @param {import("../router.js").Place} place
 * @returns {import("../screens.js").Open}
 */
export function open(root, world, place) {
  const wish = world.reads.wish();
  const links = Object.keys(PARTS).map((id) =>
    link(hrefTo("admin", {}, `?part=${id}`) ?? "", { "data-part": id }, say.parts[id]?.name ?? id),
  );
  const title = h("h2");
  const hint = h("p.quiet");
  const lacks = h("p.told.warn", { hidden: true });
  const status = h("p.quiet.later", say.reading);
  const content = h("div.stack");
  const main = h("section.stack", { "aria-labelledby": "part-title" }, title, hint, lacks, status, content);
  title.id = "part-title";
  root.classList.add("admin", "stack");
  root.append(h("h1", say.title), h("nav.parts", { "aria-label": say.nav }, ...links), main);

  let current = "";
  /** @type {OpenPart | null} */
  let part = null;
  let turn = 0;

  /** Returns the id of the section in the address, or of the first section. */
  function asked() {
    const id = place.query.get("part") ?? "";
    return Object.hasOwn(PARTS, id) ? id : (Object.keys(PARTS)[0] ?? "");
  }

  async function openPart() {
    const id = asked();
    const { needs, load } = /** @type {Part} */ (PARTS[id]);
    const mine = (turn += 1);
    close();
    current = id;
    setAttr(main, "data-part", id);
    setText(title, say.parts[id]?.name);
    setText(hint, say.parts[id]?.hint);
    for (const one of links) setAttr(one, "aria-current", one.dataset.part === id ? "page" : null);
    links.find((one) => one.dataset.part === id)?.scrollIntoView({ block: "nearest", inline: "nearest" });
    const capability = world.lacks(needs);
    show(lacks, capability !== null);
    setText(lacks, capability ? say.lacks(capability) : "");
    show(status, true);
    setText(status, say.reading);
    try {
      const { open: openInner } = await load();
      if (mine !== turn) return;
      part = openInner(content, world, { query: () => new URL(location.href).searchParams, wish: setWish });
      setWish();
      draw();
    } catch (error) {
      console.error(error);
      if (mine === turn) setText(status, say.failed);
    }
  }

  /** @param {import("../state/store.js").Changes} [changes] */
  function draw(changes) {
    if (!part) return;
    part.show(changes);
    // A capability that the whole section lacks is shown above.
    const isTold = !lacks.hidden;
    const progress = isTold ? { problem: null, isReading: false } : progressOf(world, part.wants());
    showProgress(world, status, progress, { reading: say.reading, text: "" });
  }

  function setWish() {
    if (part) wish.set(part.wants());
  }

  function close() {
    part?.close?.();
    part = null;
    wish.set([]);
    content.replaceChildren();
  }

  void openPart();
  return {
    show: draw,
    moved(next) {
      place = next;
      if (asked() !== current) void openPart();
      else draw();
    },
    close() {
      turn += 1;
      close();
      wish.close();
    },
  };
}
