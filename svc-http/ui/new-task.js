// Form for a new task: its content, its channel, and the conflicts of its footprint while the user types.
//
// Guarantees: conflicts are shown before the task is created; if the workspace has no channel, one with the
// given name is created first. Not here: later changes of the task.

import { whyRefused } from "./pure/why.js";
import { actionOf } from "./actions.js";
import { send } from "./act.js";
import { refsOf, schemaOf, tellSending } from "./forms.js";
import { createKeptForm } from "./kept-form.js";
import { hrefTo } from "./names.js";
import { showProblem } from "./reading.js";
import { actionNames, blocks, form as say, newTask, problemParts } from "./strings/en.js";
import { openDialog } from "./view/dialog.js";
import { button, h } from "./view/node.js";
import { nodesOf } from "./view/parts.js";

/** @typedef {import("./world.js").World} World */

const FIELDS = ["title", "body", "priority", "required_skills", "depends_on", "footprint"];
const TYPED = 400;
/** Fields that are always visible; the others are in a collapsed section. */
const FIRST = ["title", "body"];

/**
 * @param {World} world
 * @param {{channelId?: string, stays?: boolean}} [how] `stays`: the task is not opened after it is created.
 */
export async function openNewTask(world, { channelId, stays = false } = {}) {
  const place = h("div.stack", h("p.quiet.later", say.loading));
  const problem = h("div.problem", { hidden: true, role: "alert" });
  const status = h("p.told", { hidden: true, role: "status" });
  let stop = () => {};
  const title = actionNames.create_thread ?? "";
  const dialog = openDialog({
    title,
    closeLabel: say.cancel,
    body: [place, status, problem],
    name: "create_thread",
    isWide: true,
    onClose: () => stop(),
  });
  try {
    const schema = await schemaOf(world, "create_thread");
    if (!dialog.node.isConnected) return;
    const refs = refsOf(world);
    const others = FIELDS.filter((name) => !FIRST.includes(name));
    const first = createKeptForm(world, "form/create_thread", { schema, only: FIRST, refs });
    const rest = createKeptForm(world, "form/create_thread/more", { schema, only: others, refs });
    const channel = channelField(world, channelId);
    const meets = h("div.stack.tight", { "aria-live": "polite" });
    const submit = h("button.primary", { type: "submit", "data-action": "create_thread" }, say.send);
    const more = h(
      "details.panel",
      { open: rest.isKept },
      h("summary", h("h2", newTask.more)),
      h("div.panel-body.stack", rest.node, meets),
    );
    const node = h(
      "form.stack",
      { novalidate: true },
      channel.node,
      first.node,
      more,
      h("div.row", submit, button(say.cancel, dialog.close)),
    );
    place.replaceChildren(node);
    first.focus();
    const sending = tellSending(world, { title, op: "create_thread", submit, status });
    stop = sending.stop;
    watchFootprint(world, rest, meets, node);
    node.addEventListener("submit", (event) => {
      event.preventDefault();
      void submitted();
    });

    async function submitted() {
      const [one, other] = [first.read(), rest.read()];
      if (!one || !other || submit.disabled) return;
      const made = () => {
        for (const form of [first, rest]) form.drop();
        dialog.close();
      };
      showProblem(world, problem, null);
      const refused = await sending.during(() => make(world, { ...one, ...other }, channel, stays, made));
      if (refused) showProblem(world, problem, refused);
    }
  } catch (refused) {
    place.replaceChildren();
    showProblem(world, problem, /** @type {import("./net/ask.js").Problem} */ (refused));
  }
}

/**
 * @param {World} world
 * @param {Record<string, unknown>} input
 * @param {ReturnType<typeof channelField>} field
 * @param {boolean} stays
 * @param {() => void} close
 */
async function make(world, input, field, stays, close) {
  const sent = (/** @type {string} */ id, /** @type {Record<string, unknown>} */ input) =>
    send(world, /** @type {import("./actions.js").Action} */ (actionOf(id)), { id: world.me.workspace_id }, input);
  const channel = /** @type {{id: string} | {name: string}} */ (field.read());
  let id = "id" in channel ? channel.id : "";
  if ("name" in channel) {
    const { body, found, lsn, problem } = await sent("create_channel", channel);
    if (problem) return problem;
    if (body) world.store.put("channel", body, lsn);
    id = body?.id ?? found?.payload.channel_id;
    // The channel exists even if the server refuses the task.
    field.made(id);
  }
  const write = await sent("create_thread", { ...input, channel_id: id });
  if (write.problem) return write.problem;
  close();
  const href = write.body && hrefTo("task", { id: write.body.id });
  if (href && !stays) world.go(href);
  return null;
}

/**
 * Returns the channel field: a choice of the existing channels, or the name of the first one.
 *
 * @param {World} world
 * @param {string} [chosen]
 */
function channelField(world, chosen) {
  const channels = world.store.all("channel").filter(({ archived, kind }) => !archived && kind !== "dm");
  if (channels.length === 0) {
    const input = h("input", {
      name: "channel_name",
      value: newTask.firstChannel,
      required: true,
      maxlength: 100,
    });
    const node = h("label.field", h("span.label", newTask.channelName), input);
    let id = "";
    return {
      node,
      read: () => (id ? { id } : { name: input.value.trim() || newTask.firstChannel }),
      made(/** @type {string} */ madeId) {
        id = madeId;
        input.readOnly = true;
      },
    };
  }
  channels.sort((one, other) => one.name.localeCompare(other.name));
  const options = channels.map(({ id, name }) => h("option", { value: id, selected: id === chosen }, name));
  const select = h("select", { name: "channel_id" }, ...options);
  return {
    node: h("label.field", h("span.label", newTask.channel), select),
    read: () => ({ id: select.value }),
    made: (/** @type {string} */ _id) => {},
  };
}

/**
 * Shows the conflicts of the footprint while the user types it.
 *
 * @param {World} world
 * @param {ReturnType<typeof createKeptForm>} form
 * @param {HTMLElement} place
 * @param {HTMLElement} typed
 */
function watchFootprint(world, form, place, typed) {
  let asked = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(look, TYPED);
  };
  typed.addEventListener("input", soon);
  typed.addEventListener("click", soon);

  async function look() {
    const footprint = /** @type {any} */ (form.peek("footprint"));
    const now = JSON.stringify(footprint ?? null);
    if (now === asked || !typed.isConnected) return;
    asked = now;
    // An item with only a kind has not been typed yet.
    const items = footprint?.items?.filter((/** @type {{}} */ one) => Object.keys(one).length > 1) ?? [];
    if (items.length === 0) return place.replaceChildren();
    try {
      const { body } = await world.ask("check_footprint", { footprint: { ...footprint, items } });
      if (now === asked) place.replaceChildren(...lines(body.conflicts));
    } catch (refused) {
      const parts = problemParts(/** @type {import("./net/ask.js").Problem} */ (refused));
      const why = h("p.problem.small", { "data-unchecked": "" }, ...nodesOf(parts, world.names));
      if (now === asked) place.replaceChildren(why);
    }
  }

  /** @param {any[]} conflicts */
  function lines(conflicts) {
    if (conflicts.length === 0) return [h("p.told.small", newTask.free)];
    const whys = whyRefused({ code: "footprint-conflict", conflicts });
    return whys.map((why) =>
      h("p.told.warn.small", { "data-why": why.code }, ...nodesOf(blocks[why.code](why), world.names)),
    );
  }
}
