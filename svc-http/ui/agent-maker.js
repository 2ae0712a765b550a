// Creates an agent, and shows its token once with the configuration of its program.
//
// Used in the first run and wherever else an agent is created. Not here: later tokens, which are created for
// a member.

import { disable, whyNot } from "./act.js";
import { acting, maker as say } from "./strings/en.js";
import { copied } from "./panels/copied.js";
import { showProblem } from "./reading.js";
import { configured } from "./secret.js";
import { openDialog } from "./view/dialog.js";
import { button, h, setChildren, setText, show } from "./view/node.js";

/** @typedef {import("./world.js").World} World */

/**
 * @param {World} world
 * @param {{made?: () => void}} [how] `made`: called when a token is shown.
 */
export function createAgentMaker(world, { made = () => {} } = {}) {
  const input = h("input", { name: "handle", autocomplete: "off", spellcheck: "false", required: true });
  const submit = h("button", { type: "submit", "data-action": "create_agent" }, say.create);
  const problem = h("p.problem", { hidden: true, role: "alert" });
  const shown = h("div.stack");
  const form = h(
    "form.stack.tight",
    h("label.field", h("span.label", say.handle), input),
    h("div.row", submit),
    problem,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void create();
  });

  let isAsking = false;
  async function create() {
    const handle = input.value.trim();
    if (!handle || submit.getAttribute("aria-disabled") === "true") return;
    isAsking = true;
    update();
    const write = await world.outbox.send({
      action: "create_agent",
      op: "create_agent",
      about: "workspace/agent",
      input: { handle },
      left: ({ kind, payload }) => kind === "MemberCreated" && payload.handle === handle.toLowerCase(),
    });
    isAsking = false;
    update();
    showProblem(world, problem, write.problem);
    if (write.problem) return;
    const { body } = write;
    // Drop the answer with the secret from the outbox; only the page keeps it.
    write.body = null;
    input.value = "";
    if (body) world.store.put("member", body.member, write.lsn);
    setChildren(shown, body ? told(handle, body.token.secret) : [h("p.told.warn", say.lost(handle))]);
    made();
  }

  function update() {
    disable(submit, whyNot(world, "create_agent") ?? (isAsking ? acting.asking : null));
    setText(submit, say.create);
  }
  update();
  return { node: h("div.stack", form, shown), form, update, focus: () => input.focus() };
}

/** @param {string} handle @param {string} secret */
function told(handle, secret) {
  return [h("p.told.warn", say.secret(handle)), copied(secret, "secret"), ...configured(secret)];
}

/**
 * Opens the form in a dialog, which a stray key does not close while it shows a token.
 *
 * @param {World} world
 */
export function openAgentMaker(world) {
  const close = button(say.cancel, () => dialog.close());
  const maker = createAgentMaker(world, { made });
  const dialog = openDialog({
    title: say.title,
    body: [maker.node, h("div.row", close)],
    name: "create_agent",
    onClose: () => unwatch(),
  });
  const unwatch = world.store.watch(maker.update);
  maker.focus();

  function made() {
    show(maker.form, false);
    setText(close, say.close);
    close.focus();
  }
}
