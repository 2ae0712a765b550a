// Form made from a JSON schema: a field per property, read back as an input that matches the schema.
//
// Guarantees: an empty field is omitted; an invalid value is reported at its field; a property of any shape
// has a field, unusual ones as JSON. Not here: errors of the server, and sending.

import { form as say } from "../strings/en.js";
import { button, h, setAttr, setText, show } from "./node.js";
import { pickField } from "./complete.js";
import { Wrong, checks, choice, json, lines, moment, numeric, text, toggle } from "./fields.js";

/** @typedef {any} Schema */
/** @typedef {import("./fields.js").Field} Field */
/** @typedef {import("../pure/pick.js").Choice} Choice */
/**
 * Resolves ids in fields: kind of a field, choices for a text, entities of a name, and label of an id.
 *
 * @typedef {{
 *   kindOf: (name: string) => string | null,
 *   find: (kind: string, text: string) => Choice[],
 *   named: (kind: string, text: string) => Choice[],
 *   labelOf: (kind: string, id: string) => string,
 * }} Refs
 */

/**
 * @param {{schema: Schema, only?: string[], values?: Record<string, any>, refs: Refs, isInline?: boolean}} what
 * `isInline`: in one row, without hints.
 */
export function createForm({ schema, only, values = {}, refs, isInline = false }) {
  const names = only ?? Object.keys(schema.properties ?? {});
  const required = new Set(schema.required ?? []);
  const fields = names
    .filter((name) => schema.properties?.[name])
    .map((name) => labelled(name, schema.properties[name], required.has(name), values[name], refs));
  return {
    node: h(isInline ? "div.row.inline" : "div.stack", ...fields.map(({ node }) => node)),
    focus: () => fields[0]?.focus(),
    count: fields.length,
    /**
     * Returns the value of a field, or undefined if it is invalid; shows no error.
     *
     * @param {string} name
     */
    peek: (name) => fields.find((field) => field.name === name)?.peek(),
    /** Returns the values of all valid fields. @returns {Record<string, unknown>} */
    peekAll() {
      const read = fields.map(({ name, peek }) => [name, peek()]);
      return Object.fromEntries(read.filter(([, value]) => value !== undefined));
    },
    /** @returns {Record<string, unknown> | null} Null if a value is invalid, which its field then shows. */
    read() {
      /** @type {Record<string, unknown>} */
      const input = {};
      let isWrong = false;
      for (const { name, read, focus } of fields) {
        const value = read();
        if (value instanceof Wrong) {
          if (!isWrong) focus();
          isWrong = true;
        } else if (value !== undefined) input[name] = value;
      }
      return isWrong ? null : input;
    },
  };
}

/** @param {string} name */
export function labelOf(name) {
  const known = say.fields[name];
  if (known) return known;
  const words = name.replace(/_(id|ids)$/, "").replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

let count = 0;

/**
 * @param {string} name
 * @param {Schema} schema
 * @param {boolean} isRequired
 * @param {any} value
 * @param {Refs} refs
 */
function labelled(name, schema, isRequired, value, refs) {
  const id = `field-${(count += 1)}`;
  const field = fieldOf(name, plain(schema), isRequired, value, refs);
  const wrong = h("p.problem.small", { hidden: true, id: `${id}-wrong` });
  const hint = h("p.quiet.small.hint", { id: `${id}-hint` }, firstOf(schema.description));
  const control = controlOf(field);
  if (control) {
    setAttr(control, "id", id);
    setAttr(control, "name", name);
    setAttr(control, "aria-describedby", `${id}-hint ${id}-wrong`);
  }
  const label = h("label.label", { for: id }, labelOf(name));
  if (!isRequired) label.append(" ", h("span.quiet", `(${say.optional})`));
  const node = control
    ? h("div.field", label, field.node, hint, wrong)
    : h("fieldset.field", { "data-field": name }, h("legend", labelOf(name)), field.node, hint, wrong);
  return {
    name,
    node,
    focus: field.focus,
    peek: () => quiet(field),
    read() {
      try {
        const read = field.read();
        show(wrong, false);
        if (control) setAttr(control, "aria-invalid", null);
        return read;
      } catch (error) {
        if (!(error instanceof Wrong)) throw error;
        show(wrong, true);
        setText(wrong, error.message);
        if (control) setAttr(control, "aria-invalid", "true");
        return error;
      }
    },
  };
}

/** Returns the value of a field, or undefined if it is invalid. @param {Field} field */
function quiet(field) {
  try {
    return field.read(true);
  } catch {
    return undefined;
  }
}

/** Returns the single control of a field, if it has only one. @param {Field} field */
const controlOf = ({ node }) =>
  node.matches("input, select, textarea") ? node : node.querySelector(":scope > [data-control]");

/** Returns the first paragraph of a description. @param {string | undefined} description */
const firstOf = (description = "") => (description.split("\n\n")[0] ?? "").replaceAll("`", "");

/**
 * Returns a schema without null, which an empty field represents.
 *
 * @param {Schema} schema
 * @returns {Schema}
 */
function plain(schema) {
  const parts = (schema.anyOf ?? []).filter((/** @type {Schema} */ part) => part.type !== "null");
  const inner = parts.length === 1 ? { ...schema, ...parts[0], anyOf: undefined } : schema;
  const type = Array.isArray(inner.type)
    ? inner.type.find((/** @type {string} */ one) => one !== "null")
    : inner.type;
  const values = inner.enum?.filter((/** @type {unknown} */ one) => one !== null);
  const consts = inner.oneOf?.map((/** @type {Schema} */ { const: value }) => value);
  const isNamed = consts?.every((/** @type {unknown} */ one) => typeof one === "string");
  return { ...inner, type, enum: values ?? (isNamed ? consts : undefined) };
}

/**
 * @param {string} name
 * @param {Schema} schema
 * @param {boolean} isRequired
 * @param {any} value
 * @param {Refs} refs
 * @returns {Field}
 */
function fieldOf(name, schema, isRequired, value, refs) {
  const kind = refs.kindOf(name);
  if (kind && schema.type === "string") return pickField({ kind, value, isRequired, refs });
  if (schema.enum) return choice(schema.enum, isRequired, value);
  if (schema.type === "boolean") return toggle(schema.default, value);
  if (schema.type === "integer" || schema.type === "number") return numeric(schema, isRequired, value);
  if (schema.type === "string" && schema.format === "date-time") return moment(isRequired, value);
  if (schema.type === "string") return text(schema, isRequired, value);
  if (schema.type === "array") return list(name, plain(schema.items ?? {}), value, refs);
  if (schema.type === "object" && schema.properties) return group(schema, value, refs);
  return json(isRequired, value);
}

/**
 * @param {string} name
 * @param {Schema} item
 * @param {any[] | undefined} value
 * @param {Refs} refs
 * @returns {Field}
 */
function list(name, item, value, refs) {
  const isWords = item.type === "string" && !item.enum && !refs.kindOf(name);
  if (isWords) return lines(value);
  if (item.enum) return checks(item.enum, value);
  const rows = h("div.stack.tight");
  /** @type {Map<HTMLElement, Field>} */
  const fields = new Map();
  const add = button(say.add, () => append(undefined).focus());
  for (const one of value ?? []) append(one);

  /** @param {any} one */
  function append(one) {
    const shape = isUnion(item) ? merged(item) : item;
    if (!one && shape.properties?.kind?.enum?.includes("path")) one = { kind: "path" };
    const isRow = Object.keys(shape.properties ?? {}).length === 2;
    const field = isRow ? group(shape, one, refs, true) : fieldOf(name, shape, true, one, refs);
    const control = controlOf(field);
    if (control) {
      setAttr(control, "name", name);
      setAttr(control, "aria-label", labelOf(name));
    }
    const row = h(
      "div.row",
      h("div.grow", field.node),
      button(say.remove, () => (fields.delete(row), row.remove())),
    );
    fields.set(row, field);
    rows.append(row);
    return field;
  }
  return {
    node: h("div.stack.tight", rows, h("div.row", add)),
    focus: () => add.focus(),
    read(isQuiet) {
      const all = [...fields.values()].map((field) => (isQuiet ? quiet(field) : field.read()));
      const read = all.filter((one) => one !== undefined);
      return read.length || value ? read : undefined;
    },
  };
}

/** @param {Schema} item */
const isUnion = (item) => (item.anyOf ?? item.oneOf ?? []).length > 1;

/**
 * Merges the alternatives of a union if they differ only in the values of a field.
 *
 * @param {Schema} item
 * @returns {Schema}
 */
function merged(item) {
  const parts = item.anyOf ?? item.oneOf;
  const names = Object.keys(parts[0].properties ?? {}).join();
  if (!parts.every((/** @type {Schema} */ part) => Object.keys(part.properties ?? {}).join() === names))
    return {};
  const properties = { ...parts[0].properties };
  for (const name of Object.keys(properties)) {
    const values = parts.flatMap((/** @type {Schema} */ part) => part.properties[name].enum ?? []);
    if (values.length) properties[name] = { ...properties[name], enum: values };
  }
  return { type: "object", properties, required: parts[0].required };
}

/** @param {Schema} schema @param {any} value @param {Refs} refs @returns {Field} */
function group(schema, value, refs, isInline = false) {
  const inner = createForm({ schema, values: value ?? {}, refs, isInline });
  return {
    node: h("div.group", inner.node),
    focus: inner.focus,
    read(isQuiet) {
      const read = isQuiet ? inner.peekAll() : inner.read();
      if (read === null) throw new Wrong("");
      return Object.keys(read).length ? read : undefined;
    },
  };
}
