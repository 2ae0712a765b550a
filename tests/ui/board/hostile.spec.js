// A workspace whose every text is hostile: on every screen it is text and nothing else.

import assert from "node:assert/strict";

import { fill } from "./fill.js";
import { PHONE, WIDE } from "./page.js";
import { tour } from "./tour.js";

const MARK = "hostile-mark";
const MARKUP = [
  `<x-hostile id=${MARK}>`,
  "<img src=http://198.51.100.7/a onerror=hostile=1>",
  "<script>hostile=1</script>",
  "</title></textarea></style><svg onload=hostile=1>",
  "<a href=javascript:hostile=1>x</a>",
  "{{hostile}} ${hostile} &lt;b&gt; &#x202e;",
];
/** What only texts of many lines may have. */
const MORE = [
  "[link](javascript:hostile=1) [other](data:text/html,x) ![image](http://198.51.100.7/b)",
  "\u202eesrever\u202c \u2066isolated \u200f\u061c",
  "`\u202ecode` ```\n</code><x-hostile>\n```",
  "# <x-hostile> heading\n\n> quote <x-hostile>\n\n1. <x-hostile>",
  "@admin\u202e @here \u0007\u001b[31m",
];
const LONG = 10_000;
/** Fields whose texts are no words of a member, or that end what is looked at. */
const NOT_FILLED = [
  "create_session.token",
  "request_app_token.client_id",
  "request_app_token.client_secret",
  "request_app_token.grant_type",
  "request_app_token.scope",
  // The same operation at another address.
  "freeze_member_alias.reason",
  // Of the token that one has oneself, which has no row on any screen but that of tokens, as those that are minted.
  "attenuate_token.label",
  "delegate_token.label",
  "create_workspace.name",
  "erase_workspace.confirm",
  "purge_workspace.confirm",
  "register_web_push.endpoint",
  "set_land_gate.pointer",
];

/** The texts of input, by operation and field, of the service's own document. */
async function textFields(world) {
  const document = await (await fetch(`http://${world.servers[0].address}/openapi.json`)).json();
  const resolve = (schema) =>
    schema.$ref
      ? resolve(
          schema.$ref
            .split("/")
            .slice(1)
            .reduce((at, part) => at[part], document),
        )
      : schema;
  const fields = new Map();
  for (const methods of Object.values(document.paths)) {
    for (const { operationId, requestBody } of Object.values(methods)) {
      const body = requestBody?.content?.["application/json"]?.schema;
      for (const [name, given] of Object.entries(body ? (resolve(body).properties ?? {}) : {})) {
        const schema = resolve(given);
        const isText = [schema.type].flat().includes("string") && !schema.format && !schema.enum;
        // A pattern that leaves out some characters lets all others through; one of names does not.
        const isFree = !schema.pattern || schema.pattern.startsWith("^[^\\u0000");
        if (isText && isFree) fields.set(`${operationId}.${name}`, schema);
      }
    }
  }
  return fields;
}

/** A hostile text that the service takes for a field. */
function hostile(schema) {
  const isLine = schema?.pattern?.includes("u202e") ?? true;
  const text = [...MARKUP, ...(isLine ? [] : MORE)].join(isLine ? " " : "\n");
  const most = Math.min(schema?.maxLength ?? 100, LONG);
  return (text + ` ${MARK}${"x".repeat(LONG)}`).slice(0, most).replace(/[\ud800-\udbff]$/, "");
}

/** Whatever on a page is not as it must be. */
function wrongOn([mark]) {
  const wrong = [];
  const pathOf = (node) =>
    (node.closest("[data-panel], [data-part]") ?? document.body).outerHTML.slice(0, 80) +
    " ... " +
    node.outerHTML.slice(0, 60);
  if (globalThis.hostile !== undefined) wrong.push("a script has run");
  if (document.querySelector(`x-hostile, #${mark}, main img, main script, main svg[onload], main iframe`))
    wrong.push("markup is markup");
  for (const { href } of document.querySelectorAll("a[href]")) {
    if (!/^https?:/.test(href)) wrong.push(`a link to ${href.slice(0, 60)}`);
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (/[\u202a-\u202e\u2066-\u2069\u0007\u001b]/.test(node.data))
      wrong.push(`a control that is not shown: ${pathOf(node.parentElement)}`);
  }
  for (const node of document.querySelectorAll("[aria-label], [title], [placeholder]")) {
    const said = ["aria-label", "title", "placeholder"].map((name) => node.getAttribute(name) ?? "").join(" ");
    if (/[\u202a-\u202e\u2066-\u2069\u0007\u001b]/.test(said))
      wrong.push(`a control in a name: ${node.tagName} ${node.className}`);
  }
  if (/[\u202a-\u202e\u2066-\u2069]/.test(document.title)) wrong.push("a control in the title");
  return wrong;
}

/** Fills the world once for all tests. */
async function filledWith(world) {
  if (world.filled) return world.filled;
  const fields = await textFields(world);
  const used = new Set();
  world.filled = await fill(world, (operation, field) => {
    used.add(`${operation}.${field}`);
    // The members of lists are not described by the first level of a schema.
    return field.includes("[]") || !fields.has(`${operation}.${field}`)
      ? `<x-hostile id=${MARK}>hostile`
      : hostile(fields.get(`${operation}.${field}`));
  });
  return Object.assign(world.filled, { fields, used });
}

export const tests = {
  "every text that can be written is written": async ({ world }) => {
    const { fields, used } = await filledWith(world);
    const forgotten = [...fields.keys()].filter(
      (name) => !used.has(name) && !NOT_FILLED.includes(name) && !/scim|\.checkpoint$|\.repo$/.test(name),
    );
    assert.deepEqual(forgotten, []);
    assert.deepEqual(
      NOT_FILLED.filter((name) => !fields.has(name) || used.has(name)),
      [],
    );
  },

  "it is text on every screen, at both widths": async ({ world, open }) => {
    const given = await filledWith(world);
    const wrong = [];
    for (const size of [WIDE, PHONE]) {
      const page = await open(world.admin, { size });
      let shown = 0;
      await tour(page, given, async (name) => {
        for (const one of await page.evaluate(wrongOn, [MARK])) wrong.push(`${name}: ${one}`);
        if (!(await page.isNarrow())) wrong.push(`${name}: it scrolls sideways at ${size.width} px`);
        shown += Number((await page.locator("body").innerText()).includes("<x-hostile"));
      });
      assert.ok(shown >= 10, `it is seen on ${shown} screens`);
    }
    assert.deepEqual([...new Set(wrong)], []);
  },

  "it is text in menus, the palette and forms": async ({ world, open }) => {
    const { task } = await filledWith(world);
    const page = await open(world.admin);
    await page.at(`t/${task}`);
    for (const key of ["Control+k", "?", "c"]) {
      await page.keyboard.press(key);
      await page.waitForSelector("dialog[open]");
      await page.settled();
      assert.deepEqual(await page.evaluate(wrongOn, [MARK]), [], key);
      await page.keyboard.press("Escape");
      await page.waitForSelector("dialog", { state: "detached" });
    }
    await page.keyboard.press("Control+k");
    await page.fill("dialog[data-dialog=palette] input", "x-hostile");
    await page.says("dialog", /<x-hostile/);
    assert.deepEqual(await page.evaluate(wrongOn, [MARK]), []);
  },
};
