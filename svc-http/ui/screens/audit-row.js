// Row of the audit trail: in the list, and in full as a dialog.
//
// Not here: the list.

import { ms } from "../pure/clock.js";
import { dateTime, when } from "../pure/format.js";
import { shownText } from "../pure/shown.js";
import { audit as say } from "../strings/en.js";
import { openDialog } from "../view/dialog.js";
import { button, h, setAttr, setChildren, setText, show } from "../view/node.js";
import { verbatim } from "../view/plain.js";

/** @typedef {import("../world.js").World} World */
/** @typedef {import("../state/audit.js").AuditRow} AuditRow */
/**
 * @typedef {{action: HTMLElement, who: HTMLElement, what: HTMLElement, status: HTMLElement, at: HTMLElement, row: AuditRow | null, drawn: string}} Parts
 */

/** @type {WeakMap<HTMLElement, Parts>} */
const parts = new WeakMap();
/** Lowest status code of a rejected request. */
const REFUSED = 400;

/** @param {World} world */
export function makeAuditRow(world) {
  const action = button("", () => openRow(world, own.row), { class: "link title mono" });
  const who = h("span.who.one-line");
  const what = h("span.what.one-line.mono.quiet");
  const status = h("span.chip");
  const at = h("time.at.quiet.small");
  const node = h("article.audit-row", action, who, what, status, at);
  /** @type {Parts} */
  const own = { action, who, what, status, at, row: null, drawn: "" };
  parts.set(node, own);
  return node;
}

/** @param {World} world @param {HTMLElement} node @param {AuditRow} row */
export function updateAuditRow(world, node, row) {
  const own = parts.get(node);
  if (!own) return;
  own.row = row;
  const { store, names } = world;
  const state = [row.seq, store.count("member"), store.get("member", row.actor_id)?.display_name].join(" ");
  if (own.drawn === state) return;
  own.drawn = state;
  setAttr(node, "data-audit", row.seq);
  setText(own.action, nameOf(row));
  setAttr(own.action, "aria-label", `${say.row(row.seq)}: ${nameOf(row)}`);
  setChildren(own.who, whoOf(names, row));
  setText(
    own.what,
    row.metadata.withheld ? say.withheld : shownText(detailOf(row).replaceAll(world.me.workspace_id, "…")),
  );
  const { status } = row.metadata;
  show(own.status, typeof status === "number");
  setText(own.status, status);
  setAttr(own.status, "data-tone", status >= REFUSED ? "bad" : "ok");
  const time = ms(row.at);
  if (time === null) return;
  setText(own.at, when(time, world.now()));
  setAttr(own.at, "datetime", row.at);
  setAttr(own.at, "title", dateTime(time));
}

/** Returns the operation of an audit row, or its action if it has none. @param {AuditRow} row */
export const nameOf = ({ action, metadata }) => String(metadata.operation ?? action);

/** @param {AuditRow} row */
function detailOf({ metadata }) {
  const { surface, path } = metadata;
  const rest = Object.entries(metadata).filter(([name]) => !TOLD.has(name));
  const told = rest.map(
    ([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return [surface, path, ...told].filter(Boolean).join(" ");
}
const TOLD = new Set(["operation", "surface", "path", "status"]);

/** @param {import("../names.js").ThingNames} names @param {AuditRow} row @returns {(Node | string)[]} */
function whoOf(names, { actor_id, subject_id }) {
  const isFor = subject_id !== null && subject_id !== actor_id;
  return [names.member(actor_id), ...(isFor ? [" ", say.actingFor, names.member(subject_id)] : [])];
}

/** @param {World} world @param {AuditRow | null} row */
function openRow({ names }, row) {
  if (!row) return;
  const time = ms(row.at);
  openDialog({
    title: `${say.row(row.seq)}: ${nameOf(row)}`,
    closeLabel: say.close,
    isWide: true,
    name: "audit",
    body: [
      h(
        "dl.facts",
        h("dt", say.action),
        h("dd.mono", row.action),
        h("dt", say.at),
        h("dd", time === null ? row.at : dateTime(time)),
        h("dt", say.by),
        h("dd", ...whoOf(names, row)),
        ...(row.grant_id ? [h("dt", say.grant), h("dd.mono", row.grant_id)] : []),
      ),
      h("h3", say.facts),
      verbatim(row.metadata),
    ],
  });
}
