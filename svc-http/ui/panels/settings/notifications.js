// Notification preferences: reasons, delivery channels, quiet hours and digest, saved together.
//
// Guarantees: a later read does not overwrite unsaved input, which is marked as unsaved. Not here: the
// delivery channels themselves.

import { ONE } from "../../state/entities.js";
import { refsOf } from "../../forms.js";
import { inboxReasons, settings as say } from "../../strings/en.js";
import { actionOf } from "../../actions.js";
import { actionButton, send } from "../../act.js";
import { toldBeside } from "../../told.js";
import { createForm } from "../../view/form.js";
import { button, h, setAttr, setChildren, show } from "../../view/node.js";

/** @typedef {import("../../world.js").World} World */

const MUTED = {
  properties: { muted: { type: "array", description: say.mutedHint, items: { type: "string" } } },
  required: ["muted"],
};

/** @param {World} world @param {() => any} preferences */
export function notificationsPart(world, preferences) {
  const save = /** @type {import("../../actions.js").Action} */ (actionOf("set_notification_preferences"));
  const form = h("form.stack", { novalidate: true });
  const unsaved = h("span.quiet", { hidden: true, role: "status" }, say.unsaved);
  const discard = button(say.discard, () => fill(preferences()), { class: "link", hidden: true });
  const press = actionButton(world, save, preferences, { begin: submit });
  const told = h("div");
  const beside = toldBeside(world, told);
  /** @type {unknown} */
  let filled = null;
  let isTouched = false;
  /** @type {() => Record<string, unknown> | null} */
  let read = () => null;
  for (const kind of ["input", "change", "click"]) form.addEventListener(kind, touched);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    press.node.click();
  });

  /** @param {Event} event */
  function touched({ type, target }) {
    const isButton = target instanceof Element && target.closest("button") !== null;
    if (type === "click" && !isButton) return;
    isTouched = true;
    tell();
  }

  function tell() {
    show(unsaved, isTouched);
    show(discard, isTouched);
  }

  /** @param {any} now */
  function fill(now) {
    filled = now;
    isTouched = false;
    const rules = rulesTable(now.rules);
    const quiet = quietFields(now.quiet_hours);
    const digest = digestFields(now.digest);
    const words = h("input", { type: "checkbox", name: "show_words", checked: now.show_words });
    const muted = createForm({ schema: MUTED, values: { muted: now.muted }, refs: refsOf(world) });
    setChildren(form, [
      ...[rules.node, quiet.node, digest.node],
      h("label.row", words, h("span", say.showWords)),
      h("p.quiet.small", say.showWordsHint),
      muted.node,
    ]);
    read = () => {
      const more = muted.read();
      if (!more) return null;
      return {
        rules: rules.read(),
        quiet_hours: quiet.read(),
        digest: digest.read(),
        show_words: words.checked,
        muted: more.muted ?? [],
      };
    };
    tell();
  }

  async function submit() {
    const input = read();
    if (!input) return;
    const write = await send(world, save, preferences(), input);
    if (write.state === "done" && write.body) {
      isTouched = false;
      world.store.put("preferences", { ...preferences(), ...write.body, id: ONE }, write.lsn);
    }
    tell();
  }

  return {
    node: h(
      "section.panel",
      { "aria-label": say.notifications },
      h(
        "div.panel-body.stack",
        ...[h("h2", say.notifications), h("p.quiet", say.notificationsHint), form],
        ...[h("div.row", press.node, discard, unsaved), told],
      ),
    ),
    show() {
      const now = preferences();
      if (!now) return;
      if (now !== filled && !isTouched) fill(now);
      press.update();
      beside.show(`preferences/${now.id}`, now);
    },
  };
}

/** @param {{reason: string, mail: boolean, push: boolean}[]} rules */
function rulesTable(rules) {
  const rows = rules.map(({ reason, mail, push }) => {
    const name = inboxReasons[reason] ?? reason;
    const box = (/** @type {"mail" | "push"} */ way, /** @type {boolean} */ checked) =>
      h("input", {
        type: "checkbox",
        name: `${reason}.${way}`,
        checked,
        "aria-label": `${name}: ${say[way]}`,
      });
    const [byMail, byPush] = [box("mail", mail), box("push", push)];
    return {
      reason,
      byMail,
      byPush,
      node: h("tr", h("th", { scope: "row" }, name), h("td", byMail), h("td", byPush)),
    };
  });
  const heads = [say.reason, say.mail, say.push].map((head) => h("th", { scope: "col" }, head));
  return {
    node: h("table.rules", h("thead", h("tr", ...heads)), h("tbody", ...rows.map(({ node }) => node))),
    read: () =>
      rows.map(({ reason, byMail, byPush }) => ({ reason, mail: byMail.checked, push: byPush.checked })),
  };
}

/** @param {string} label @param {HTMLElement} control */
const labelled = (label, control) => h("label.field", h("span.label", label), control);

/**
 * Creates a checkbox that shows further fields while it is checked.
 *
 * @param {string} label
 * @param {boolean} isOn
 * @param {HTMLElement} content
 */
function switched(label, isOn, content) {
  const box = h("input", { type: "checkbox", checked: isOn });
  show(content, isOn);
  box.addEventListener("change", () => show(content, box.checked));
  return { box, node: h("div.stack.tight", h("label.row", box, h("span.label", label)), content) };
}

/** @param {any} now */
function quietFields(now) {
  const start = h("input", { type: "time", name: "start", value: now?.start ?? "22:00" });
  const end = h("input", { type: "time", name: "end", value: now?.end ?? "07:00" });
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const zone = h("input", { name: "time_zone", autocomplete: "off", value: now?.time_zone ?? here });
  const days = Object.entries(say.dayNames).map(([day, name]) => {
    const isOn = !now?.days || now.days.includes(day);
    const box = h("input", { type: "checkbox", name: "days", value: day, checked: isOn });
    return { box, node: h("label.row.tight", box, h("span", name)) };
  });
  const content = h(
    "div.stack.tight.group",
    h("p.quiet.small", say.quietHint),
    h("div.row", labelled(say.start, start), labelled(say.end, end), labelled(say.zone, zone)),
    h("fieldset.field", h("legend", say.days), h("div.row", ...days.map(({ node }) => node))),
  );
  const { box, node } = switched(say.quiet, now !== null, content);
  setAttr(box, "name", "quiet_hours");
  return {
    node,
    read() {
      if (!box.checked) return null;
      const chosen = days.filter((day) => day.box.checked).map((day) => day.box.value);
      const all = chosen.length === days.length ? null : chosen;
      return { start: start.value, end: end.value, time_zone: zone.value.trim(), days: all };
    },
  };
}

const MIDNIGHT = "00:00";

/** @param {any} now */
function digestFields(now) {
  const options = Object.entries(say.everyNames).map(([value, name]) =>
    h("option", { value, selected: value === (now?.every ?? "hour") }, name),
  );
  const every = h("select", { name: "every" }, ...options);
  const at = h("input", { type: "time", name: "at", value: now?.at ?? MIDNIGHT });
  return {
    node: h(
      "fieldset.field",
      h("legend", say.digest),
      h("div.row.inline-fields", labelled(say.every, every), labelled(say.at, at)),
    ),
    // The default digest, hourly on the hour, is sent as null.
    read: () =>
      every.value === "hour" && isFull(at.value) ? null : { every: every.value, at: at.value || MIDNIGHT },
  };
}

/** @param {string} time */
const isFull = (time) => time === "" || time.endsWith(":00");
