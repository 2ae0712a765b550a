// Memory block: its text, which the user edits here, and its versions.
//
// Guarantees: an unsaved edit is kept as a draft; a save never overwrites a version that the user has not
// seen. After a concurrent change, both texts are shown side by side until the user chooses one. Not here:
// the list of blocks.

import { ms } from "../pure/clock.js";
import { differ } from "../pure/differ.js";
import { number, relative } from "../pure/format.js";
import { shownText } from "../pure/shown.js";
import { acting, memory as say } from "../strings/en.js";
import { actionOf } from "../actions.js";
import { actionBar, disable, send, whyNot } from "../act.js";
import { toldBeside } from "../told.js";
import { button, h, setAttr, setChildren, setText, show, words } from "../view/node.js";
import { verbatim } from "../view/plain.js";
import { openVersions } from "./versions.js";

/** @typedef {import("../world.js").World} World */
/** @typedef {{version: number, text: string}} Base Version that the user's edit is based on. */

let count = 0;

/** @param {World} world @param {string} id */
export function openBlock(world, id) {
  const { store, drafts } = world;
  const place = `memory/${id}`;
  const field = `block-${(count += 1)}`;
  const title = h("h2");
  const purpose = h("p.quiet", { hidden: true });
  const facts = h("p.row.quiet.small");
  const hint = h("p.quiet.small", { hidden: true }, say.readOnlyHint);
  const text = h("textarea", { id: field, name: "value", rows: 14, dir: "auto", spellcheck: "false" });
  const label = h("label.label", { for: field }, say.text);
  const size = h("p.quiet.small");
  // A text field does not reveal invisible characters, so this element shows them below it.
  const seen = h("div.stack.tight", { hidden: true });
  const meets = h("p.problem", { hidden: true, role: "alert", "data-problem": "version-conflict" });
  const theirsTitle = h("h3.label");
  const theirs = h("pre.theirs", { dir: "auto", tabindex: 0 });
  const other = h("div.stack.tight", { hidden: true }, theirsTitle, theirs, h("p.quiet.small", say.marked));
  const save = button(say.save, () => void write(), { class: "primary", "data-action": "set_memory_block" });
  const back = button(say.takeBack, takeBack, { hidden: true });
  const more = h("div.row");
  const receipts = h("div");
  const bar = actionBar(world, "memory_block", more);
  const beside = toldBeside(world, receipts);
  const versions = openVersions(world, id);
  const root = h(
    "section.stack.block",
    { "data-block": id },
    h("div.row", title),
    purpose,
    facts,
    hint,
    meets,
    h("div.two-texts", other, h("div.stack.tight", label, text, seen, size)),
    h("div.row", save, back),
    receipts,
    h("div.row", more),
    versions.root,
  );
  /** @type {Base | null} */
  let base = null;
  const block = () => store.get("memory_block", id);
  const isDirty = () => base !== null && text.value !== base.text;

  /** Starts from the saved draft if it differs from the text of the block. @param {any} now */
  function begin(now) {
    base = { version: now.version, text: now.value };
    text.value = now.value;
    try {
      const draft = JSON.parse(drafts.get(place) || "null");
      if (typeof draft?.text !== "string" || draft.text === now.value) return;
      base = { version: draft.version, text: draft.base };
      text.value = draft.text;
    } catch {
      drafts.set(place, "");
    }
  }

  function keep() {
    const draft = base && isDirty() ? { version: base.version, base: base.text, text: text.value } : null;
    drafts.set(place, draft ? JSON.stringify(draft) : "");
  }

  /** Discards the edit and returns to the current text of the block. */
  function takeBack() {
    const now = block();
    if (!now) return;
    base = { version: now.version, text: now.value };
    text.value = now.value;
    keep();
    draw();
    text.focus();
  }

  /** Saves the text. The save fails if the block has a newer version than the one on screen. */
  async function write() {
    const now = block();
    const action = actionOf("set_memory_block");
    if (!now || !base || !action || !isDirty()) return;
    const value = text.value;
    const {
      state,
      body,
      lsn,
      problem,
      id: sent,
    } = await send(world, action, now, { value, expected_version: now.version });
    if (state === "done") {
      if (body) store.put("memory_block", body, lsn);
      base = { version: body?.version ?? now.version + 1, text: value };
      keep();
    } else if (problem?.code === "version-conflict") {
      world.outbox.dismiss(sent);
      await readTheirs();
    }
    draw();
  }

  /** Loads the other version, so that a conflict shows both texts even while the page is paused. */
  async function readTheirs() {
    try {
      const { body, lsn } = await world.ask("get_memory_block", { block_id: id });
      store.put("memory_block", body, lsn);
    } catch {
      world.reads.again(`memory_block/${id}`);
    }
  }

  /** @param {any} now */
  function drawFacts(now) {
    const at = ms(now.updated_at);
    setChildren(title, [words(now.label)]);
    show(purpose, Boolean(now.description));
    setChildren(purpose, [words(now.description)]);
    setChildren(facts, [
      h("span.chip", { "data-tone": "accent" }, say.version(now.version)),
      now.read_only ? h("span.chip", say.readOnly) : null,
      h(
        "span",
        say.changed(at === null ? "" : relative(at, world.now())),
        world.names.member(now.updated_by ?? now.created_by),
      ),
    ]);
    show(hint, now.read_only && now.created_by !== world.me.member_id);
  }

  /** @param {any} now */
  function drawConflict(now) {
    const isMet = base !== null && isDirty() && now.version > base.version && !now.stale;
    show(meets, isMet);
    show(other, isMet);
    setText(label, isMet ? say.mine : say.text);
    setText(save, isMet ? say.saveOver(now.version) : say.save);
    setText(back, isMet ? say.takeTheirs : say.takeBack);
    if (!isMet || !base) return;
    setChildren(meets, [world.names.member(now.updated_by), say.meets(base.version, now.version)]);
    setText(theirsTitle, say.theirs(now.version));
    const { before, one, after } = differ(now.value, text.value);
    setChildren(theirs, [shownText(before), one ? h("mark", shownText(one)) : null, shownText(after)]);
  }

  function drawSize() {
    const limit = block()?.limit ?? 0;
    const length = [...text.value].length;
    setText(size, `${say.size(number(length), number(limit))}${length > limit ? `. ${say.tooLong}` : ""}`);
    setAttr(size, "data-tone", length > limit ? "bad" : null);
  }

  let drawnSeen = "";
  function drawSeen() {
    const isSeen = shownText(text.value) === text.value;
    show(seen, !isSeen);
    if (!isSeen && drawnSeen !== text.value)
      setChildren(seen, [h("p.told.warn.small", say.unseen), verbatim(text.value, { dir: "auto" })]);
    drawnSeen = text.value;
  }

  function drawSave() {
    const isAsking = world.outbox.isAsking("set_memory_block", `memory_block/${id}`);
    const now = isAsking ? acting.asking : isDirty() ? null : say.unchanged;
    disable(save, whyNot(world, "set_memory_block") ?? now);
    if (isAsking) setText(save, acting.asking);
    show(back, isDirty());
  }

  let drawn = "";
  function draw() {
    const now = block();
    if (!now || now.value === undefined) return;
    if (!base) begin(now);
    // Without unsaved changes, the field follows the text of the block.
    else if (!isDirty() && !now.stale && base.version !== now.version) takeIn(now);
    else if (isDirty() && !now.stale && text.value === now.value) takeIn(now);
    const state = `${now.of} ${now.version} ${store.get("member", now.updated_by)?.of}`;
    if (state !== drawn) drawFacts(now);
    drawn = state;
    drawConflict(now);
    setAttr(root, "data-conflict", !meets.hidden);
    drawSize();
    drawSeen();
    drawSave();
    bar.show(now);
    beside.show(`memory_block/${id}`, now);
    versions.show(now);
  }

  /** @param {any} now */
  function takeIn(now) {
    base = { version: now.version, text: now.value };
    if (text.value !== now.value) text.value = now.value;
    keep();
  }

  text.addEventListener("input", () => {
    keep();
    draw();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    void write();
  });

  return {
    root,
    id,
    show: draw,
    /** @param {import("../state/store.js").Changes} changes */
    take: (changes) => versions.take(changes.events),
    close: () => versions.close(),
  };
}
