// Writing a message in a task: a draft that survives, mentions that are completed, and who will not be
// reached.
//
// Promises: the words are on the page at once and taken back into the field if they are refused; a draft
// stays as long as the tab, under its author. Leaves out: showing messages (timeline.js).

import { fold } from "../pure/filter.js";
import { acting, composer as say } from "../strings/en.js";
import { toldBeside } from "../told.js";
import { h, setAttr, setText, show } from "../view/node.js";
import { createMentions } from "../view/mentions.js";

const CHOICES = 8;

/**
 * @param {import("../world.js").World} world
 * @param {string} threadId
 */
export function openComposer(world, threadId) {
  const place = `thread/${threadId}`;
  const about = `composer/${threadId}`;
  const input = h("textarea", {
    name: "body",
    rows: 2,
    placeholder: say.placeholder,
    "aria-label": say.label,
    dir: "auto",
  });
  const submit = h("button.primary", { type: "submit", "data-action": "post_message" }, say.send);
  const told = h("div");
  const beside = toldBeside(world, told);
  const reached = h("p.told.warn.small", { hidden: true, role: "status" });
  const root = h(
    "form.composer.stack.tight",
    { onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), void post()) },
    told,
    reached,
    input,
    h("div.row", h("span.quiet.small.wide-only", say.hint), h("span.end"), submit),
  );
  const mentions = createMentions(input, { label: say.mentions, find });
  root.append(mentions.list);
  input.value = world.drafts.get(place);
  input.addEventListener("input", () => world.drafts.set(place, input.value));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      root.requestSubmit();
    }
  });

  /** @param {string} text */
  function find(text) {
    const wanted = fold(text);
    const found = [];
    for (const { id, handle, display_name, active } of world.store.all("member")) {
      if (active === false) continue;
      if (fold(handle).includes(wanted) || fold(display_name ?? "").includes(wanted)) {
        found.push({ id, text: handle, label: display_name ? `${display_name} @${handle}` : `@${handle}` });
      }
      if (found.length >= CHOICES) break;
    }
    return found;
  }

  async function post() {
    const body = input.value.trim();
    if (!body || submit.getAttribute("aria-disabled") === "true") return;
    input.value = "";
    world.drafts.set(place, "");
    show(reached, false);
    const write = await world.outbox.send({
      action: "post_message",
      op: "post_message",
      about,
      input: { thread_id: threadId, body },
      left: (event) =>
        event.kind === "MessagePosted" &&
        event.message?.body === body &&
        event.payload.$chain?.thread_id === threadId,
    });
    // What was refused is still the draft; what is written since stays behind it.
    if (write.state === "refused" || write.state === "not-sent") restore(body);
    if (write.state !== "done") return;
    const missed = (write.body?.not_reached ?? []).map((/** @type {any} */ { text }) => text);
    show(reached, missed.length > 0);
    if (missed.length) setText(reached, say.sent(missed.join(", ")));
    world.outbox.dismiss(write.id);
  }

  /** @param {string} body */
  function restore(body) {
    input.value = input.value ? `${body}\n${input.value}` : body;
    world.drafts.set(place, input.value);
  }

  return {
    root,
    input,
    /** @param {any} thread */
    show(thread) {
      const lacks = world.lacks("post_message");
      const why = lacks ? acting.lacks(lacks) : world.isOffline() ? acting.offline : null;
      setAttr(submit, "aria-disabled", why ? "true" : null);
      setAttr(submit, "title", why);
      setText(submit, world.outbox.isAsking("post_message", about) ? acting.asking : say.send);
      beside.show(about, thread);
    },
    focus() {
      input.value = world.drafts.get(place) || input.value;
      input.focus();
      input.setSelectionRange(input.value.length, input.value.length);
      input.scrollIntoView({ block: "nearest" });
    },
  };
}
