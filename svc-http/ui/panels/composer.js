// Writing a message in a task: a draft that survives, mentions that are completed, and who will not be
// reached.
//
// Promises: the words are on the page at once and taken back into the field unless it is known that they were
// posted; a draft stays as long as the tab, under its author. Leaves out: showing messages (timeline.js).

import { list as listOf } from "../pure/format.js";
import { oneLine, typed } from "../pure/line.js";
import { actionOf } from "../actions.js";
import { disable, send, whyNot } from "../act.js";
import { acting, composer as say, message } from "../strings/en.js";
import { toldBeside } from "../told.js";
import { button, h, setAttr, setChildren, setText, show, words } from "../view/node.js";
import { createMentions } from "../view/mentions.js";
import { createAudience } from "./audience.js";
import { createPreview } from "./preview.js";

/** So much of what is answered is shown. */
const CITED = 80;

/** By then what was said is drawn with all that an event of it has. */
const DRAWN_AFTER = 1_000;

/**
 * @param {import("../world.js").World} world
 * @param {string} threadId
 */
export function openComposer(world, threadId) {
  const place = `thread/${threadId}`;
  const about = `composer/${threadId}`;
  const sending = `sending/${threadId}`;
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
  const preview = createPreview(world, input, { channel: () => thread?.channel_id, missed: warn });
  const answers = h("div.row.small", { hidden: true });
  /** @type {any} */
  let thread;
  const audience = createAudience(world, () => thread);
  const root = h(
    "form.composer.stack.tight",
    { onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), void post()) },
    told,
    answers,
    input,
    reached,
    preview.body,
    h("div.row", preview.press, h("span.quiet.small.wide-only", say.hint), h("span.end"), submit),
  );
  const mentions = createMentions(input, { label: say.mentions, find: audience.find });
  root.append(mentions.list);
  input.value = world.drafts.get(place);
  preview.look();
  const lost = world.outbox.open(about).length ? "" : world.drafts.get(sending);
  if (lost) restore(lost);
  input.addEventListener("input", () => {
    world.drafts.set(place, input.value);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      root.requestSubmit();
    }
  });

  /** What is answered, and how the answer stands to it. @type {{id: string, kind: string} | null} */
  let answered = null;

  /** @param {string | null} id */
  function answer(id) {
    answered = id === null ? null : { id, kind: "replies_to" };
    show(answers, id !== null);
    if (id === null) return setChildren(answers, []);
    const select = h(
      "select",
      { name: "kind", "aria-label": say.relation, onchange: () => (answered = { id, kind: select.value }) },
      ...Object.entries(message.relates).map(([value, name]) =>
        h("option", { value, selected: value === "replies_to" }, name),
      ),
    );
    const of = world.store.get("message", id);
    setChildren(answers, [
      select,
      h("span.one-line.grow", world.names.member(of?.author_id), ": ", words(oneLine(of?.body ?? "", CITED))),
      button(acting.dismiss, () => answer(null), { class: "link" }),
    ]);
    input.focus();
  }

  /** Says whom a mention will not reach, as long as it can be changed. @param {string[]} missed */
  function warn(missed) {
    show(reached, missed.length > 0);
    if (missed.length) setText(reached, say.notReached(listOf(missed)));
  }

  async function post() {
    const body = typed(input.value);
    if (!body || submit.getAttribute("aria-disabled") === "true") return;
    const answering = answered;
    input.value = "";
    world.drafts.set(place, "");
    preview.look();
    answer(null);
    const sent = world.outbox.send({
      action: "post_message",
      op: "post_message",
      about,
      input: { thread_id: threadId, body },
      left: (event) =>
        event.kind === "MessagePosted" &&
        event.message?.body === body &&
        event.payload.$chain?.thread_id === threadId,
    });
    showEnd();
    keepSending();
    const write = await sent;
    // What was not posted is still the draft; what is written since stays behind it.
    if (write.state !== "done") {
      restore(body);
      if (answering) answer(answering.id);
      return;
    }
    keepSending();
    showEnd();
    const missed = (write.body?.not_reached ?? []).map((/** @type {any} */ { text }) => text);
    show(reached, missed.length > 0);
    if (missed.length) setText(reached, say.sent(listOf(missed)));
    world.outbox.dismiss(write.id);
    // While paused its event waits with those of others; a session that may not follow the log gets none.
    if (write.body && !world.isFollowing()) world.reads.againOf(`message/${write.body.id}`);
    if (answering && write.body) relate(write.body.id, answering);
  }

  /** What one has said oneself is seen, and as it grows until all of it is drawn. */
  function showEnd() {
    const main = root.closest(".task-main");
    if (!main) return;
    const growing = new ResizeObserver(() => main.scrollIntoView({ block: "end" }));
    growing.observe(main);
    setTimeout(() => growing.disconnect(), DRAWN_AFTER);
  }

  /** @param {string} id @param {{id: string, kind: string}} to */
  function relate(id, to) {
    const action = actionOf("relate_message");
    if (action) void send(world, action, { id }, { kind: to.kind, target_message_id: to.id });
  }

  /** Nobody knows yet whether it was posted: the page may go before. */
  function keepSending() {
    world.drafts.set(sending, world.outbox.open(about).map((write) => write.input.body).join("\n"));
  }

  /** @param {string} body */
  function restore(body) {
    const since = world.drafts.get(place) || input.value;
    input.value = since ? `${body}\n${since}` : body;
    world.drafts.set(place, input.value);
    preview.look();
    keepSending();
  }

  return {
    root,
    input,
    answer: (/** @type {string} */ id) => answer(id),
    /** @param {any} now */
    show(now) {
      thread = now;
      audience.look();
      // What is withdrawn is cited no more.
      if (answered && world.store.get("message", answered.id)?.withdrawn) answer(null);
      disable(submit, whyNot(world, "post_message"));
      setText(submit, world.outbox.isAsking("post_message", about) ? acting.asking : say.send);
      beside.show(about, thread);
    },
    close() {
      audience.close();
      preview.close();
    },
    focus() {
      input.value = world.drafts.get(place) || input.value;
      input.focus();
      input.setSelectionRange(input.value.length, input.value.length);
      input.scrollIntoView({ block: "nearest" });
    },
  };
}
