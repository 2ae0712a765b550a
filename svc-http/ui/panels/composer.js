// Composer of a message in a task: a draft, completed mentions, and a warning about unreachable members.
//
// Guarantees: a sent message appears immediately, and its text returns to the field unless the server has
// confirmed the message; a draft lives as long as the tab, per author. Not here: showing messages
// (timeline.js).

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

/** Maximum number of characters of the cited message. */
const CITED = 80;

/** Time after which a sent message has been drawn completely, in ms. */
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

  /**
   * Message that the text replies to, and the kind of the relation.
   *
   * @type {{id: string, kind: string} | null}
   */
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

  /**
   * Warns about mentions that reach no member while the text can still be changed.
   *
   * @param {string[]} missed
   */
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
    // Text that was not posted becomes the draft again, in front of what the user has typed since.
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
    // Reads the message if no event brings it: the page is paused, or the session may not follow the log.
    if (write.body && !world.isFollowing()) world.reads.againOf(`message/${write.body.id}`);
    if (answering && write.body) relate(write.body.id, answering);
  }

  /** Scrolls to the user's own message, and again while the message grows until it is drawn completely. */
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

  /** Stores text without a known outcome as a draft, because the page may close before the answer. */
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
      // A withdrawn message is no longer cited.
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
