// Fields of a form: text, numbers, choices, times, and any value as JSON.
//
// Guarantees: a field returns a value of its schema, nothing if it is empty, or reports what is wrong. Not
// here: labels, and combining fields to a form.

import { form as say } from "../strings/en.js";
import { h } from "./node.js";

/** @typedef {any} Schema */
/**
 * @typedef {{node: HTMLElement, read: (isQuiet?: boolean) => unknown, focus: () => void}} Field `read` throws
 * a `Wrong`; a quiet read shows no errors and omits wrong parts of a compound field.
 */

/** Error with the message that is shown at a field. */
export class Wrong extends Error {}

/** Length limit above which a text field has several lines. */
const LONG = 300;

/**
 * @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} node
 * @param {() => unknown} read
 * @returns {Field}
 */
const simple = (node, read) => ({ node, read, focus: () => node.focus() });

/** @param {Schema} schema @param {boolean} isRequired @param {any} value */
export function text({ maxLength = 0, pattern }, isRequired, value) {
  const isLong = maxLength > LONG && !pattern?.includes("u001f");
  const props = { maxlength: maxLength || null, required: isRequired, dir: "auto", autocomplete: "off" };
  const node = isLong ? h("textarea", { ...props, rows: 4 }) : h("input", { ...props, type: "text" });
  node.value = value ?? "";
  return simple(node, () => (node.value === "" ? undefined : node.value));
}

/** @param {string[]} values @param {boolean} isRequired @param {any} value */
export function choice(values, isRequired, value) {
  const options = values.map((one) => h("option", { value: one, selected: one === value }, one));
  const node = h(
    "select",
    { required: isRequired },
    isRequired ? null : h("option", { value: "" }, say.none),
    ...options,
  );
  return simple(node, () => node.value || undefined);
}

/** @param {boolean | undefined} preset @param {any} value */
export function toggle(preset, value) {
  const options = [
    ["", say.none],
    ["true", say.yes],
    ["false", say.no],
  ].map(([of, label]) => h("option", { value: of, selected: String(value ?? preset ?? "") === of }, label));
  const node = h("select", ...options);
  return simple(node, () => (node.value ? node.value === "true" : undefined));
}

/** @param {Schema} schema @param {boolean} isRequired @param {any} value */
export function numeric({ type, minimum, maximum }, isRequired, value) {
  const node = h("input", { inputmode: "numeric", required: isRequired, autocomplete: "off" });
  node.value = value ?? "";
  return simple(node, () => {
    if (node.value.trim() === "") return undefined;
    const read = /^\s*[+-]?\d+(\.\d+)?\s*$/.test(node.value) ? Number(node.value) : NaN;
    const isWhole = type !== "integer" || Number.isSafeInteger(read);
    const isWithin = (minimum === undefined || read >= minimum) && (maximum === undefined || read <= maximum);
    if (!isWhole || !isWithin || Number.isNaN(read)) throw new Wrong(say.invalidNumber);
    return read;
  });
}

/** @param {boolean} isRequired @param {any} value */
export function moment(isRequired, value) {
  const node = h("input", { type: "datetime-local", required: isRequired });
  const at = value ? new Date(value) : null;
  if (at) node.value = new Date(Number(at) - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  return simple(node, () => (node.value ? new Date(node.value).toISOString() : undefined));
}

/** @param {boolean} isRequired @param {any} value */
export function json(isRequired, value) {
  const node = h("textarea.mono", { rows: 4, required: isRequired, spellcheck: "false", dir: "ltr" });
  node.value = value === undefined || value === null ? "" : JSON.stringify(value, null, 2);
  return simple(node, () => {
    if (node.value.trim() === "") return undefined;
    try {
      return JSON.parse(node.value);
    } catch {
      throw new Wrong(say.invalidJson);
    }
  });
}

/** @param {string[] | null | undefined} value */
export function lines(value) {
  const node = h("textarea", { rows: 3, placeholder: say.lines, dir: "auto" });
  node.value = (value ?? []).join("\n");
  const read = () =>
    node.value
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean);
  return simple(node, () => (read().length || value?.length ? read() : undefined));
}

/** @param {string[]} values @param {string[] | null | undefined} value @returns {Field} */
export function checks(values, value) {
  const boxes = values.map((one) =>
    h("input", { type: "checkbox", value: one, checked: Boolean(value?.includes(one)) }),
  );
  return {
    node: h("div.row", ...boxes.map((box) => h("label.row.tight", box, h("span", box.value)))),
    focus: () => boxes[0]?.focus(),
    read() {
      const read = boxes.filter(({ checked }) => checked).map((box) => box.value);
      return read.length ? read : undefined;
    },
  };
}
