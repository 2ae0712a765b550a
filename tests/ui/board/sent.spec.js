// What is sent means what its sources mean: only comments, space and how modules find each other are other. And it
// is little.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { get } from "node:http";

import { lex } from "../lex.js";

const SOURCES = new URL("../../../svc-http/ui/", import.meta.url);
/** Scripts that stand by themselves. */
const ALONE = "push.js";
/** It runs all others. */
const RUNNER = "modules.js";
/** Kilobytes packed by gzip: what is fetched before the first screen is there, and all that there is. */
const [FIRST_MAX, ALL_MAX] = [90, 177];

const names = readdirSync(SOURCES, { recursive: true }).filter((name) => name.endsWith(".js") && name !== "strings/test.js");
const sources = new Map(names.map((name) => [name, readFileSync(new URL(name, SOURCES), "utf8")]));

/** A script without its comments, and without what may stand in it and says nothing, or only what is checked. */
const meaning = (source) =>
  lex(source)
    .filter((part) => part.type !== "comment")
    .map((part) => (part.type === "code" ? codeIn(part.text) : `${part.type} ${part.text} `))
    .join("")
    .replaceAll(/(?<![,[]),(?=[)}\]])/g, "");

/** The packs say let for const. @param {string} text */
const codeIn = (text) => text.replaceAll(/\bconst(?=[\s[{])/g, "let").replaceAll(/\s+/g, "");

const FROM_OTHERS = /^(?:import|export)\b(?: \w+| \* as \w+| \*| \{[^}]*\}) from "[^"]+";$/gm;
const LIST = /^export \{([^}]*)\};$/gm;
const DECLARATION = /^export (?:async )?(?:function\*?|const|class) (\w+)/gm;

/** The code of a source, as it is where all modules of a file are. */
const codeOf = (name) =>
  sources
    .get(name)
    .replaceAll(FROM_OTHERS, "")
    .replaceAll(LIST, "")
    .replaceAll(/^export /gm, "")
    .replaceAll(/\bimport\("(\..*?)"\)/g, (whole, path) => `$l("${nameOf(path, name)}")`)
    .replaceAll("import.meta.url", "$a");

const nameOf = (path, from) => new URL(path, new URL(from, SOURCES)).href.slice(SOURCES.href.length);

/** What a source gives; null: all that another one gives. */
function givenBy(name) {
  const source = sources.get(name);
  const given = [...source.matchAll(DECLARATION)].map(([, name]) => name);
  for (const [, list] of source.matchAll(/^export \{([^}]*)\}/gm))
    given.push(...list.split(",").map((one) => one.trim().split(" as ").at(-1)).filter(Boolean));
  for (const [, path] of source.matchAll(/^export \* from "([^"]+)";$/gm)) given.push(...givenBy(nameOf(path, name)));
  return given.sort();
}

/** A body in a pack: its code, and what it gives. */
function bodyOf(text) {
  const inner = text.slice(text.indexOf("{") + 1, -1);
  const taken = /^let(?: \w+|\{[^}]*\})=\$n\("[^"]*"\)(?:,(?:\w+|\{[^}]*\})=\$n\("[^"]*"\))*;/.exec(inner)?.[0] ?? "";
  const [, code, list] = /^([^]*)\nreturn\{([^{}]*)\}$/.exec(inner.slice(taken.length));
  const given = list.split(",").map((one) => one.split(":")[0]);
  return { code, given: given.filter(Boolean).sort() };
}

/** Where the files of the board are. */
async function folderOf(world) {
  const page = await (await fetch(`${world.url}board`)).text();
  return new URL(/src="([^"]*)app\.js"/.exec(page)[1], `${world.url}board`);
}

async function textOf(folder, name) {
  const answer = await fetch(new URL(name, folder));
  assert.equal(answer.status, 200, name);
  return answer.text();
}

const opened = (text) => import(`data:text/javascript,${encodeURIComponent(text)}`);

/** The bodies in all packs, by the names of their modules. */
async function bodiesIn(folder) {
  const bodies = {};
  for (const file of ["main.js", "rest.js"]) {
    const { default: pack } = await opened(await textOf(folder, file));
    for (const name of Object.keys(pack)) assert.ok(!(name in bodies), `${name} is there twice`);
    Object.assign(bodies, pack);
  }
  const app = await textOf(folder, "app.js");
  const [, members] = /^\$m\((\{[^]*\}),new URL\(/m.exec(app);
  return Object.assign(bodies, (await opened(`export default ${members}`)).default);
}

/** How many bytes the server itself sends for an address of the board, packed by gzip. */
const packedSize = (world, address) =>
  new Promise((resolve, reject) => {
    get(address.replace(new URL(world.url).host, world.servers[0].address), { headers: { "accept-encoding": "gzip" } }, (answer) => {
      let size = 0;
      answer.on("data", (chunk) => (size += chunk.length));
      answer.on("end", () => (answer.statusCode === 200 ? resolve(size) : reject(new Error(`${address}`))));
    }).on("error", reject);
  });

/** Nothing is done when the page is idle, before a test says so. */
function holdIdle() {
  globalThis.requestIdleCallback = (run) => (globalThis.whenIdle = run);
}

export const tests = {
  "every module that is sent means the same as its source, and gives the same names": async ({ world }) => {
    const folder = await folderOf(world);
    const bodies = await bodiesIn(folder);
    assert.ok(Object.keys(bodies).length > 150);
    for (const name of sources.keys()) {
      if (name === ALONE || name === RUNNER) continue;
      if (name in bodies) {
        const { code, given } = bodyOf(bodies[name].toString());
        assert.equal(meaning(code), meaning(codeOf(name)), name);
        assert.deepEqual(given, givenBy(name), name);
      } else {
        // It has nothing but types, and names of others that are taken from there.
        assert.equal(meaning(codeOf(name)), "", `${name} is not sent`);
      }
      const single = await fetch(new URL(name, folder));
      const isFile = ["app.js", "main.js", "worker/verify.js"].includes(name);
      assert.equal(single.status, isFile ? 200 : 404, name);
    }
    assert.equal(meaning(await textOf(new URL(world.url), ALONE)), meaning(sources.get(ALONE)));
    for (const file of ["app.js", "worker/verify.js"]) {
      const [, runner] = /^let\{openModules:\$m\}=\(\(\)=>\{([^]*)\nreturn\{openModules\}\}\)\(\);$/m.exec(
        await textOf(folder, file),
      );
      assert.equal(meaning(runner), meaning(codeOf(RUNNER)), file);
    }
  },

  "what needs no page is the same by its pack and by its source": async ({ world }) => {
    const { openModules } = await import("../../../svc-http/ui/modules.js");
    const folder = await folderOf(world);
    const { need } = openModules(await bodiesIn(folder), folder.href, [], () => assert.fail(), () => {});
    let count = 0;
    for (const name of names.filter((name) => /^(?:pure|strings)\//.test(name))) {
      const source = await import(new URL(name, SOURCES));
      if (!sources.get(name).replaceAll(FROM_OTHERS, "").match(DECLARATION)) continue;
      const sent = need(name);
      assert.deepEqual(Object.keys(sent).sort(), Object.keys(source).sort(), name);
      for (const [key, value] of Object.entries(source)) assert.equal(typeof sent[key], typeof value, `${name} ${key}`);
      count += 1;
    }
    assert.ok(count > 30, `${count}`);
  },

  "the first screens are there with little, and the rest comes when the page is idle": async ({ world, open }) => {
    const folder = await folderOf(world);
    const channel = await world.channel("little");
    // With so many the steps of the first run, which are not among these files, are done.
    for (const title of ["Is shown first", "Two", "Three", "Four"]) await world.task(channel, title);
    const own = new Set();
    for (const path of ["", "board"]) {
      const page = await open(world.admin, { before: holdIdle });
      const asked = [];
      page.on("request", (request) => asked.push(request.url()));
      await page.at(path);
      if (path === "board") await page.says("main", /Is shown first/);
      await page.waitForSelector(`main [data-screen=${path || "now"}]`);
      await page.waitForFunction(() => globalThis.whenIdle);
      assert.ok(!asked.some((url) => url.includes("/rest.js")), `${asked}`);
      const rest = page.waitForResponse("**/rest.js");
      await page.evaluate(() => globalThis.whenIdle());
      assert.equal((await rest).status(), 200);
      const board = asked.filter((url) => url.startsWith(folder.href) || url === page.url() || /\.webmanifest$/.test(url));
      const first = [...new Set(board)].filter((url) => !url.endsWith("/rest.js"));
      assert.ok(first.some((url) => url.endsWith("/main.js")), `${first}`);
      for (const url of board) if (url.startsWith(folder.href)) own.add(url);
      const sizes = await Promise.all(first.map((url) => packedSize(world, url)));
      const sum = sizes.reduce((sum, size) => sum + size, 0);
      assert.ok(sum <= FIRST_MAX * 1_000, `${sum} bytes in ${first.length} files`);
    }
    const all = [world.url, ...own, ...["icon.svg", "worker/verify.js"].map((name) => new URL(name, folder).href)];
    all.push(...["push.js", "manifest.webmanifest"].map((name) => `${world.url}${name}`));
    const sizes = await Promise.all([...new Set(all)].map((url) => packedSize(world, url)));
    const sum = sizes.reduce((sum, size) => sum + size, 0);
    assert.ok(sum <= ALL_MAX * 1_000, `${sum} bytes in ${sizes.length} files`);
  },

  "what could not be fetched is fetched when it is wanted again": async ({ world, open }) => {
    const page = await open(world.admin, { before: holdIdle });
    const asked = [];
    let isOffline = true;
    await page.route("**/rest.js*", (route) => {
      asked.push(route.request().url().split("/").at(-1));
      return isOffline ? route.abort() : route.continue();
    });
    await page.at("board");
    await page.keyboard.press("g");
    await page.keyboard.press("l");
    await page.waitForSelector("main > .problem[role=alert]");
    // It is said there, too.
    page.problems.length = 0;
    isOffline = false;
    await page.click("main > .row button");
    await page.waitForSelector("main [data-screen=log]");
    // The worker that the log begins asks for it by its own address.
    assert.deepEqual(asked.slice(0, 2), ["rest.js", "rest.js?1"]);
    assert.ok(asked.slice(2).every((name) => name === "rest.js"), `${asked}`);
  },

  "a page that is open over an upgrade leads to the new one when its files are gone": async ({ world, open }) => {
    const page = await open(world.admin, { before: holdIdle });
    await page.at("board");
    const ours = /\/f\/(\w+)\//.exec((await folderOf(world)).href)[1];
    const others = ours.split("").reverse().join("");
    const gone = { status: 404, contentType: "application/problem+json", body: "{}" };
    let asked = 0;
    const isAway = (url) => url.pathname.endsWith("/rest.js") || url.pathname.endsWith("/worker/verify.js");
    await page.route(isAway, (route) => ((asked += 1), route.fulfill(gone)));
    const ofPage = (url) => url.pathname === new URL(world.url).pathname;
    await page.route(ofPage, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: (await response.text()).replaceAll(ours, others) });
    });
    // A dialog, and a screen: each says it, and has the way out.
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open] button:has-text('Reload')");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog[open]", { state: "detached" });
    await page.keyboard.press("g");
    await page.keyboard.press("l");
    await page.waitForSelector("main > .problem[role=alert]");
    await page.waitForSelector("body :not(dialog) button:has-text('Reload')");
    assert.equal(asked, 2);
    page.problems.length = 0;
    await page.unroute(isAway);
    await page.unroute(ofPage);
    const other = page.waitForNavigation();
    await page.click("button:has-text('Reload')");
    await other;
    await page.waitForSelector("main [data-screen=log]");
  },
};
