// What the source of the board keeps to: how its modules depend on each other, and what stands in none of them.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { lex } from "./lex.js";

const root = new URL("../../svc-http/ui/", import.meta.url);
const LINES_MAX = 300;

/** Every file, by its path in the folder. */
const files = new Map(
  readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}/${entry.name}`.replace(root.pathname, "").replace(/^\//, ""))
    .map((path) => [path, readFileSync(new URL(path, root), "utf8")]),
);
const modules = [...files].filter(([path]) => path.endsWith(".js"));
const markup = [...files].filter(([path]) => path.endsWith(".html"));

const parts = new Map(modules.map(([path, text]) => [path, lex(text)]));

/** Where something is in some modules, in these sorts of parts: path and line of each. */
function found(pattern, { which = () => true, sorts = ["code", "string", "pattern"] } = {}) {
  const places = [];
  for (const [path] of modules.filter(([path]) => which(path))) {
    for (const { type, text, line } of parts.get(path)) {
      if (!sorts.includes(type)) continue;
      for (const { 0: hit, index } of text.matchAll(pattern)) {
        places.push(`${path}:${line + text.slice(0, index).split("\n").length - 1}: ${hit}`);
      }
    }
  }
  return places;
}

const none = (places) => assert.deepEqual(places, []);

test("there are files to look at", () => {
  assert.ok(modules.length > 20 && files.has("app.js") && files.has("index.html"));
});

test("a module is taken apart as it is read", () => {
  const source = 'a("// no") // yes\n/* also\n */ b(`/* ${c({ d: `e` })} f\\``, /["/]\\//g) / 2 // "\n+ "\\"" / g';
  const told = lex(source).map(({ type, text, line }) => `${line} ${type} ${text.replaceAll("\n", "~")}`);
  assert.deepEqual(told, [
    "1 code a(",
    "1 string // no",
    "1 code ) ",
    "1 comment // yes",
    "1 code ~",
    "2 comment /* also~ */",
    "3 code  b(",
    "3 string /* ",
    "3 code c({ d: ",
    "3 string e",
    "3 code  })",
    "3 string  f\\`",
    "3 code , ",
    '3 pattern /["/]\\//g',
    "3 code ) / 2 ",
    '3 comment // "',
    "3 code ~+ ",
    '4 string \\"',
    "4 code  / g",
  ]);
});

test("no path and no capability of the service stands in a module", () => {
  const routes = JSON.parse(readFileSync(new URL("../golden/routes.json", import.meta.url), "utf8"));
  const paths = JSON.stringify(routes)
    .match(/"\/[^"]*"/g)
    .map((path) => JSON.parse(path));
  const firsts = new Set(paths.map((path) => path.split("/")[1]).filter((first) => /^[a-z][\w-]+$/.test(first)));
  assert.ok(firsts.size > 10, `${[...firsts]}`);
  // A screen of the board may be called like a part of the service, and is never asked for.
  const route = new RegExp(`^/?(?:${[...firsts].filter((first) => first !== "ui").join("|")})/`, "g");
  // Addresses of things begin otherwise, and are made in one place.
  none(found(route, { sorts: ["string"], which: (path) => path !== "pure/address.js" }));
  const capabilities = JSON.parse(readFileSync(new URL("../golden/capabilities.json", import.meta.url), "utf8"));
  const names = [...new Set(JSON.stringify(capabilities).match(/[a-z]+:[a-z-]+/g))];
  assert.ok(names.includes("approval:grant"), `${names}`);
  none(found(new RegExp(names.join("|"), "g")));
  none(found(/^(?:GET|POST|PUT|PATCH|DELETE)$/g, { sorts: ["string"], which: (path) => path !== "net/ask.js" }));
});

test("nothing takes markup, and nothing runs a text", () => {
  none(found(/\.(?:innerHTML|outerHTML|srcdoc)\b|\b(?:insertAdjacentHTML|setHTMLUnsafe|DOMParser|createContextualFragment)\b/g));
  none(found(/\bsrcdoc\s*:|\bdocument\s*\.\s*write|\beval\s*\(|\bnew Function\b/g, { sorts: ["code"] }));
  none(found(/javascript:|style=|<script/g, { sorts: ["string"] }));
  none(
    found(/^on(?:click|load|error|input|submit|key\w+)$|^style$/g, {
      sorts: ["string"],
      which: (path) => path !== "view/node.js",
    }),
  );
  // Of Intl, a style is another thing.
  const ofPage = (path) => !path.startsWith("pure/");
  none(found(/\bstyle\s*:|\.style\.cssText|\.style\s*=/g, { sorts: ["code"], which: ofPage }));
  for (const [path, text] of markup) {
    assert.doesNotMatch(text, /\sstyle=|\son\w+=|<style|javascript:/i, path);
    // Every script is a file.
    for (const [, inner] of text.matchAll(/<script[^>]*>([\s\S]*?)<\/script>/g)) assert.equal(inner.trim(), "", path);
  }
});

test("only one module asks, and only one has a socket", () => {
  none(found(/\bfetch\s*\(|XMLHttpRequest|sendBeacon|\bEventSource\b/g, { which: (path) => path !== "net/ask.js" }));
  none(found(/\bnew WebSocket\b/g, { which: (path) => path !== "net/live.js" }));
  assert.ok(found(/\bfetch\s*\(/g).length > 0 && found(/\bnew WebSocket\b/g).length > 0);
});

test("no secret is kept", () => {
  none(found(/\bdocument\s*\.\s*cookie\b|\bindexedDB\b/g));
  none(found(/\blocalStorage\b|\bsessionStorage\b/g, { which: (path) => path !== "state/seen.js" }));
});

/** Words with a space between them: a sentence, unless it is a selector, a query, a list of keys or names, or a command. */
const SENTENCE = /[\p{L}\p{N}][,.:;!?]?\s+[\p{L}\p{N}]/u;
const NO_SENTENCE = /[[\]#>=]|^\.|^\(|:focus|:not|prefers-|^(?:\w+\+\S+ ?)+$|^(?:claude|curl) /;
/** Before lists of names, before selectors, and before what is for whoever looks at the console. */
const NO_SPEECH = /\b(?:class|rel):$|\b(?:querySelector(?:All)?|closest|matches)\($|\bconsole\.\w+\($|\bError\($/;

test("every sentence is in strings/", () => {
  const spoken = [];
  for (const [path] of modules.filter(([path]) => !path.startsWith("strings/"))) {
    parts.get(path).forEach(({ type, text, line }, at) => {
      if (type !== "string" || !SENTENCE.test(text) || NO_SENTENCE.test(text)) return;
      if (!NO_SPEECH.test(parts.get(path)[at - 1]?.text.trimEnd() ?? "")) spoken.push(`${path}:${line}: ${text}`);
    });
  }
  none(spoken);
  const strings = [...parts].filter(([path]) => path.startsWith("strings/")).flatMap(([, all]) => all);
  assert.ok(strings.filter(({ type, text }) => type === "string" && SENTENCE.test(text)).length > 100);
});

/** What the server makes of its table of operations. */
const MADE = ["operations.js", "titles.js"];

/** What a module imports of ours: paths in the folder. */
function imported(path) {
  const names = [];
  parts.get(path)?.forEach(({ type, text }, at) => {
    const before = parts.get(path)[at - 1]?.text ?? "";
    if (type === "string" && /(?:\bfrom|\bimport\s*\(?|\bnew URL\()\s*$/.test(before) && text.endsWith(".js")) names.push(text);
  });
  return names.map((name) => new URL(name, new URL(path, root)).pathname.replace(root.pathname, ""));
}

test("every import is of a module that there is", () => {
  for (const [path] of modules) {
    for (const name of imported(path)) {
      assert.ok(files.has(name) || MADE.includes(name), `${path} imports ${name}`);
    }
  }
});

test("every module is reached from the page", () => {
  // What the browser opens by itself is named by nobody, nor is what runs all others; a module of types alone is
  // not loaded.
  const reached = new Set(["app.js", "modules.js", "push.js"]);
  for (const path of reached) for (const name of imported(path)) reached.add(name);
  assert.deepEqual(
    modules.filter(([path, text]) => !reached.has(path) && !/^export \{\};$/m.test(text)).map(([path]) => path),
    [],
  );
});

/** The folders, each above those after it; what stands in no folder may use all. */
const ORDER = ["screens", "panels", "view", "state", "net", "strings", "pure"];
/** What is of one height knows nothing of each other. */
const APART = {
  view: ["state", "net"],
  state: ["view"],
  strings: ["net", "state"],
  worker: ["screens", "panels", "view", "state"],
};

test("arrows between folders go downwards", () => {
  const wrong = [];
  for (const [path] of modules) {
    const from = path.includes("/") ? path.split("/")[0] : null;
    for (const name of imported(path)) {
      const to = name.includes("/") ? name.split("/")[0] : null;
      if (from === null || from === to || MADE.includes(name)) continue;
      const isUp = from === "pure" || (to !== null && ORDER.includes(from) && ORDER.indexOf(to) < ORDER.indexOf(from));
      if (isUp || APART[from]?.includes(to)) wrong.push(`${path} imports ${name}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test("pure modules and sentences know nothing of a page, and pure ones of no clock", () => {
  const page = /\b(?:document|window|navigator|localStorage|location|HTMLElement|customElements)\s*[.[(]/g;
  none(found(page, { sorts: ["code"], which: (path) => /^(?:pure|strings)\//.test(path) }));
  none(found(/\bDate\.now\(|\bperformance\.now\(|\bnew Date\(\)/g, { which: (path) => path.startsWith("pure/") }));
});

test("every module says first what it is, and none is long", () => {
  for (const [path, text] of modules) {
    assert.match(text, /^\/\/ \S/, path);
    const lines = text.split("\n").length - 1;
    assert.ok(lines <= LINES_MAX, `${path} has ${lines} lines`);
  }
});
