// A form that restores input that was typed but not sent.
//
// Guarantees: only values that differ from the initial ones are kept, as a draft of the signed-in member;
// secrets are never kept; the user can start over. Not here: building a form from a schema (view/form.js) and
// sending it.

import { form as say } from "./strings/en.js";
import { createForm } from "./view/form.js";
import { button, h } from "./view/node.js";

/** Names of fields with secrets, which are never stored in a draft. */
const SECRET = /(?:^|_)(?:secret|token|code)$/;

/**
 * @param {import("./world.js").World} world
 * @param {string} place Key of this form's draft among all drafts.
 * @param {Parameters<typeof createForm>[0]} what
 */
export function createKeptForm(world, place, what) {
  const fresh = createForm(what);
  const first = fresh.peekAll();
  const draft = JSON.parse(world.drafts.get(place) || "null");
  let fields = draft ? createForm({ ...what, values: { ...what.values, ...draft } }) : fresh;
  const told = h("p.row.quiet.small", say.kept, button(say.anew, anew, { class: "link", "data-anew": "" }));
  const node = h("div.stack", draft ? told : null, fields.node);
  for (const kind of ["input", "click"]) node.addEventListener(kind, keep);

  function keep() {
    const typed = changed(first, fields.peekAll());
    world.drafts.set(place, typed ? JSON.stringify(typed) : "");
  }

  function anew() {
    told.remove();
    fields.node.replaceWith(fresh.node);
    fields = fresh;
    fields.focus();
  }

  return {
    node,
    /** Whether the form began with a draft. */
    isKept: Boolean(draft),
    focus: () => fields.focus(),
    /** @param {string} name */
    peek: (name) => fields.peek(name),
    read: () => fields.read(),
    /** Drops the draft after the input has been sent. */
    drop: () => world.drafts.set(place, ""),
  };
}

/**
 * @param {Record<string, unknown>} before
 * @param {Record<string, unknown>} now
 * @returns {Record<string, unknown> | null} Null for values that were cleared; null as a whole if nothing
 * differs.
 */
function changed(before, now) {
  const names = Object.keys({ ...before, ...now }).filter(
    (name) => !SECRET.test(name) && JSON.stringify(before[name]) !== JSON.stringify(now[name]),
  );
  return names.length ? Object.fromEntries(names.map((name) => [name, now[name] ?? null])) : null;
}
