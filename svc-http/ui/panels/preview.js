// What a text will look like, and whom it will not reach, while somebody writes it.
//
// Promises: the service is asked once typing rests, and only for what is shown or mentions somebody; of two answers
// the later text counts, and what is still being written is not wrong yet; without an answer the text is shown as it
// is. Leaves out: sending it.

import { nodesOf } from "../bodies.js";
import { mentionAt } from "../pure/handles.js";
import { typed } from "../pure/line.js";
import { OPERATION } from "../state/trees.js";
import { composer as say } from "../strings/en.js";
import { foldable } from "../view/fold.js";
import { button, h, setAttr, show } from "../view/node.js";

/** So long nothing is typed before it is looked at. */
const RESTS = 500;

let count = 0;

/**
 * @param {import("../world.js").World} world
 * @param {HTMLTextAreaElement} input
 * @param {{channel: () => string | undefined, missed: (texts: string[]) => void}} how `missed` is told of each
 * mention that reaches nobody, as it is written.
 */
export function createPreview(world, input, { channel, missed }) {
  const id = `preview-${(count += 1)}`;
  const body = h("div.marked.preview", { id, hidden: true, role: "region", "aria-label": say.preview });
  const press = button(say.preview, toggle, { class: "link", "aria-expanded": "false", "aria-controls": id });
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let isShown = false;
  /** What of the text reaches nobody, as far as it is known. @type {string[]} */
  let unreached = [];
  let abort = new AbortController();

  function toggle() {
    isShown = !isShown;
    setAttr(press, "aria-expanded", String(isShown));
    show(body, isShown);
    if (isShown) void read();
    else body.replaceChildren();
  }

  /** Looks at the text once typing rests. */
  function look() {
    forget();
    if (typed(input.value) === "") return draw();
    timer = setTimeout(() => void read(), RESTS);
  }

  /** What was asked of another text is no answer. */
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
      // It is sent all the same, and then said.
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
    /** The text is another one, also without anybody having typed. */
    look,
    close: forget,
  };
}
