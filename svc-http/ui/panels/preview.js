// Preview of a text that is being written, and its mentions that reach no member.
//
// Guarantees: the server is asked after a pause in typing, and only if the preview is open or the text
// contains a mention; the answer for the latest text counts, and a mention that is still being typed causes
// no warning; without an answer the plain text is shown. Not here: sending the text.

import { nodesOf } from "../bodies.js";
import { mentionAt } from "../pure/handles.js";
import { typed } from "../pure/line.js";
import { OPERATION } from "../state/trees.js";
import { composer as say } from "../strings/en.js";
import { foldable } from "../view/fold.js";
import { button, h, setAttr, show } from "../view/node.js";

/** Pause in typing before the text is sent for preview, in ms. */
const RESTS = 500;

let count = 0;

/**
 * @param {import("../world.js").World} world
 * @param {HTMLTextAreaElement} input
 * @param {{channel: () => string | undefined, missed: (texts: string[]) => void}} how `missed` receives the
 * mentions that reach no member, as written.
 */
export function createPreview(world, input, { channel, missed }) {
  const id = `preview-${(count += 1)}`;
  const body = h("div.marked.preview", { id, hidden: true, role: "region", "aria-label": say.preview });
  const press = button(say.preview, toggle, { class: "link", "aria-expanded": "false", "aria-controls": id });
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let isShown = false;
  /** Mentions in the text that reach no member, according to the latest answer. @type {string[]} */
  let unreached = [];
  let abort = new AbortController();

  function toggle() {
    isShown = !isShown;
    setAttr(press, "aria-expanded", String(isShown));
    show(body, isShown);
    if (isShown) void read();
    else body.replaceChildren();
  }

  /** Requests a preview after a pause in typing. */
  function look() {
    forget();
    if (typed(input.value) === "") return draw();
    timer = setTimeout(() => void read(), RESTS);
  }

  /** Cancels the request for an earlier text. */
  function forget() {
    clearTimeout(timer);
    abort.abort();
    abort = new AbortController();
  }

  async function read() {
    forget();
    const text = typed(input.value);
    if (text === "" || !(isShown || /[@＠]/.test(text))) return draw();
    const { signal } = abort;
    try {
      const { body: answer } = await world.ask(OPERATION, { channel_id: channel(), texts: [text] }, { signal });
      const { nodes, not_reached } = answer.items[0];
      if (!signal.aborted) draw(text, nodes, not_reached.map((/** @type {{text: string}} */ one) => one.text));
    } catch {
      // Sending still works without a preview, and then reports the mentions.
      if (!signal.aborted) draw(text, null);
    }
  }

  /** @param {string} text @param {import("../pure/fold.js").Tree[] | null} nodes @param {string[]} now */
  function draw(text = "", nodes = [], now = []) {
    unreached = now;
    if (isShown) foldable(body, text, (head) => nodesOf(world, nodes, text, head));
    warn();
  }

  function warn() {
    const begun = document.activeElement === input ? mentionAt(input.value, input.selectionStart ?? 0) : null;
    missed(unreached.filter((text) => text.slice(1).toLowerCase() !== begun?.word));
  }

  input.addEventListener("input", look);
  input.addEventListener("blur", warn);
  return {
    body,
    press,
    /** Updates the preview after a change of the text by code. */
    look,
    close: forget,
  };
}
