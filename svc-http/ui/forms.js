// Form in a dialog for any operation, built from its schema.
//
// Guarantees: the schemas are read once, when a form is first opened; a refusal is shown in the dialog and
// the typed input stays; the form says when it is sending and when nothing can be sent. Not here: rendering
// fields (view/form.js) and drafts (kept-form.js).

import { shortId } from "./pure/format.js";
import { called, offered } from "./pure/pick.js";
import { oneLine } from "./pure/line.js";
import { createKeptForm } from "./kept-form.js";
import { showProblem } from "./reading.js";
import { acting, form as say } from "./strings/en.js";
import { openDialog } from "./view/dialog.js";
import { button, h, setText, show } from "./view/node.js";
import { operations } from "./net/ask.js";

/** @typedef {import("./world.js").World} World */
/** @typedef {import("./net/ask.js").Problem} Problem */

/** @type {Promise<any> | null} */
let document = null;

/**
 * Returns the schema of an operation's whole input.
 *
 * @param {World} world
 * @param {string} op
 */
export async function schemaOf(world, op) {
  document ??= world.ask("openapi").then(({ body }) => body);
  document.catch(() => (document = null));
  const doc = await document;
  const row = operations[op];
  const described = row && doc.paths[row[1]]?.[row[0].toLowerCase()];
  const body = described?.requestBody?.content?.["application/json"]?.schema ?? {};
  /** @type {Record<string, any>} */
  const properties = {};
  const required = [...(body.required ?? [])];
  for (const parameter of described?.parameters ?? []) {
    // The document defines shared parameters once and refers to them.
    const shared = doc.components.parameters[parameter.$ref?.split("/")[3]];
    const { name, schema, required: isRequired } = shared ?? parameter;
    properties[name] = schema;
    if (isRequired) required.push(name);
  }
  return {
    properties: { ...properties, ...body.properties },
    required,
    description: described?.description ?? "",
  };
}

/** The kind of entity that an id field refers to. @type {Record<string, string>} */
const KINDS = {
  member_id: "member",
  to_member_id: "member",
  owner_id: "member",
  assignee_id: "member",
  subject: "member",
  delegate: "member",
  member_ids: "member",
  muted: "place",
  target_message_id: "message",
  channel_id: "channel",
  thread_id: "thread",
  depends_on_id: "thread",
  depends_on: "thread",
  block_id: "memory_block",
};
const FOUND = 20;
/** Maximum characters of a message in a choice. */
const MESSAGE_MOST = 80;

/** @param {World} world @returns {import("./view/form.js").Refs} */
export function refsOf({ store }) {
  /** Returns all entities of a kind; a place is a channel or a task. @param {string} kind */
  const all = (kind) =>
    kind === "place" ? [...store.all("channel"), ...store.all("thread")] : store.all(kind);
  /** @param {string} kind @param {any} one @returns {string} */
  const nameOf = (kind, one) =>
    kind === "message" ? oneLine(one.body, MESSAGE_MOST) : (one.handle ?? one.title ?? one.label ?? one.name ?? "");
  /**
   * Returns choices; equal names are labelled with their channel and the end of their id.
   *
   * @param {string} kind
   */
  function choices(kind) {
    const named = all(kind).map((one) => ({ one, name: nameOf(kind, one) }));
    const times = new Map();
    for (const { name } of named) times.set(name, (times.get(name) ?? 0) + 1);
    return named.map(({ one, name }) => {
      const channel = store.get("channel", one.channel_id)?.name;
      return { id: one.id, name, label: times.get(name) > 1 ? say.apart(name, channel, shortId(one.id)) : name };
    });
  }
  return {
    kindOf: (name) => KINDS[name] ?? null,
    labelOf: (kind, id) => choices(kind).find((one) => one.id === id)?.label ?? id,
    find: (kind, text) => offered(choices(kind), text, FOUND),
    named: (kind, text) => called(choices(kind), text),
  };
}

/**
 * @param {World} world
 * @param {{
 *   title: string,
 *   op: string,
 *   only?: string[],
 *   values?: Record<string, any>,
 *   isDanger?: boolean,
 *   about?: boolean,
 *   asksToken?: boolean,
 *   draft?: string,
 *   send: (input: Record<string, unknown>, token?: string) => Promise<Problem | null>,
 * }} what `about`: the description of the operation is shown above the fields; `asksToken`: sent with a token
 * that the user types; `draft`: key under which the typed input is kept; `send` returns the refusal, or null.
 */
export async function openForm(world, what) {
  const { title, op, only, values, isDanger = false, about = false, asksToken = false, draft = op, send } = what;
  const problem = h("div.problem", { hidden: true, role: "alert" });
  const place = h("div.stack", h("p.quiet.later", say.loading));
  const status = h("p.told", { hidden: true, role: "status" });
  const dialog = openDialog({
    title,
    closeLabel: say.cancel,
    body: [place, status, problem],
    name: op,
    onClose: () => (stop(), unwatch()),
  });
  let stop = () => {};
  /** @type {Problem | null} */
  let refusal = null;
  const unwatch = world.store.watch(() => refusal && tell(refusal));

  /** @param {Problem} refused */
  function tell(refused) {
    refusal = refused;
    showProblem(world, problem, refused);
  }

  try {
    const schema = await schemaOf(world, op);
    if (!dialog.node.isConnected) return;
    const made = { schema, only: only ?? ownFields(schema), values, refs: refsOf(world) };
    const fields = createKeptForm(world, `form/${draft}`, made);
    const submit = h(
      "button",
      { type: "submit", class: isDanger ? "danger" : "primary", "data-action": op },
      say.send,
    );
    const node = h("form", { novalidate: true, class: "stack" });
    if (about)
      node.append(
        ...schema.description.split("\n\n").map((/** @type {string} */ text) => h("p.quiet", text)),
      );
    const token = asksToken ? tokenField() : null;
    node.append(fields.node, token?.node ?? "", h("div.row", submit, button(say.cancel, dialog.close)));
    node.addEventListener("submit", (event) => {
      event.preventDefault();
      void submitted();
    });
    place.replaceChildren(node);
    fields.focus();
    const sending = tellSending(world, { title, op, submit, status });
    stop = sending.stop;

    async function submitted() {
      const input = fields.read();
      if (!input || submit.disabled) return;
      const typed = token?.take();
      if (typed === "") return token?.focus();
      showProblem(world, problem, (refusal = null));
      const refused = await sending.during(() => send(input, typed));
      if (refused) return tell(refused);
      fields.drop();
      dialog.close();
    }
  } catch (refused) {
    place.replaceChildren();
    tell(/** @type {Problem} */ (refused));
  }
}

/**
 * Shows in a form whether its request is under way, and whether nothing can be sent now.
 *
 * @param {World} world
 * @param {{title: string, op: string, submit: HTMLButtonElement, status: HTMLElement}} of
 */
export function tellSending(world, { title, op, submit, status }) {
  let isSending = false;
  const draw = () => {
    const write = isSending ? world.outbox.all().findLast((one) => one.op === op) : undefined;
    const isOffline = world.isOffline();
    const words =
      write?.state === "unknown" ? acting.unknown(title) : isSending ? acting.asking : acting.offline;
    submit.disabled = isSending || isOffline;
    show(status, isSending || isOffline);
    setText(status, isSending || isOffline ? words : "");
  };
  const unwatch = world.store.watch(draw);
  draw();
  return {
    stop: unwatch,
    /** @template T @param {() => Promise<T>} send */
    async during(send) {
      isSending = true;
      const sent = send();
      draw();
      try {
        return await sent;
      } finally {
        isSending = false;
        draw();
      }
    },
  };
}

/** Field for a token that is sent once; reading the token clears the field. */
function tokenField() {
  const input = h("input", {
    type: "password",
    name: "token",
    autocomplete: "one-time-code",
    spellcheck: "false",
    required: true,
    "aria-describedby": "typed-token-hint",
  });
  return {
    node: h(
      "div.stack.tight",
      h("label.field", h("span.label", say.token), input),
      h("p.quiet.small", { id: "typed-token-hint" }, say.tokenHint),
    ),
    focus: () => input.focus(),
    take() {
      const text = input.value.trim();
      input.value = "";
      return text;
    },
  };
}

/**
 * Returns the names of the input fields, except `workspace_id` and `detail`.
 *
 * @param {{properties: Record<string, unknown>}} schema
 */
const ownFields = ({ properties }) =>
  Object.keys(properties).filter((name) => name !== "workspace_id" && name !== "detail");
