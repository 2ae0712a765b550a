// A form that has again what was typed into it and not sent.
//
// Promises: only what differs from what the form began with is kept, as a draft of who is signed in; a secret
// never is; one can begin anew. Leaves out: how a form is made of a schema (view/form.js), and sending.

import { form as say } from "./strings/en.js";
import { createForm } from "./view/form.js";
import { button, h } from "./view/node.js";

/** What is written nowhere but in its field. */
const SECRET = /(?:^|_)(?:secret|token|code)$/;

/**
 * @param {import("./world.js").World} world
 * @param {string} place Where the draft is, of all drafts.
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
    /** Whether it began with what was typed before. */
    isKept: Boolean(draft),
    focus: () => fields.focus(),
    /** @param {string} name */
    peek: (name) => fields.peek(name),
    read: () => fields.read(),
    /** What was typed is where it should be. */
    drop: () => world.drafts.set(place, ""),
  };
}

/**
 * @param {Record<string, unknown>} before
 * @param {Record<string, unknown>} now
 * @returns {Record<string, unknown> | null} Null for what was emptied; null if nothing differs.
 */
function changed(before, now) {
  const names = Object.keys({ ...before, ...now }).filter(
    (name) => !SECRET.test(name) && JSON.stringify(before[name]) !== JSON.stringify(now[name]),
  );
  return names.length ? Object.fromEntries(names.map((name) => [name, now[name] ?? null])) : null;
}
