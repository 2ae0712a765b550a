// Chromium with hosts around the card of an approval: one that shows what the card sends, and one that is made
// of what is not ours.
//
// Each line read is a command, and each line printed its result, all in JSON.

import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { getToolUiResourceUri, RESOURCE_MIME_TYPE } from "@modelcontextprotocol/ext-apps/app-bridge";
import { chromium } from "playwright-core";

const print = (result) => process.stdout.write(`${JSON.stringify(result)}\n`);
const browser = await chromium.launch({
  executablePath: process.env.SVC_TEST_CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
const context = await browser.newContext();
const page = await context.newPage();
// What the page reports: scripts that fail, and what its policy has kept it from.
let errors = [];
page.on("pageerror", (error) => errors.push(error.message));
page.on("console", (message) => {
  const isStatus = message.text().startsWith("Failed to load resource");
  if (message.type() === "error" && !isStatus) errors.push(message.text());
});
// The frame of the card.
let shown;

// Returns what is shown once nothing is under way.
async function look() {
  await shown.waitForSelector("[role=status]:not(:text-is('…'))", { state: "attached" });
  return {
    title: await shown.textContent("h1"),
    text: await shown.textContent("main"),
    status: await shown.textContent("[role=status]"),
    buttons: await shown.$$eval("button", (all) => all.map(({ id }) => id)),
    images: await shown.$$eval("img, b", (all) => all.length),
    errors,
  };
}

// Presses a button, and returns what is shown then.
async function press({ id }) {
  const before = await shown.textContent("main");
  await shown.click(`#${id}`);
  await shown.waitForFunction(
    (before) => {
      const [main, status] = ["main", "[role=status]"].map((at) => document.querySelector(at)?.textContent);
      return status !== undefined && status !== "…" && main !== before;
    },
    before,
  );
  return look();
}

// Shows a card as a host does: in a frame without an origin, which may run scripts and load nothing.
async function card({ html, result }) {
  errors = [];
  await page.goto("about:blank");
  await page.evaluate(
    ({ html, result }) => {
      const frame = document.createElement("iframe");
      frame.sandbox = "allow-scripts";
      window.asked = [];
      window.results = [];
      const send = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
      window.addEventListener("message", ({ data, source }) => {
        if (source !== frame.contentWindow || data.method === "ui/notifications/size-changed") return;
        window.asked.push({ method: data.method, params: data.params });
        if (data.method === "ui/initialize") {
          const host = { hostInfo: { name: "host", version: "1" }, hostCapabilities: {}, hostContext: {} };
          send({ id: data.id, result: { protocolVersion: data.params.protocolVersion, ...host } });
        } else if (data.method === "ui/notifications/initialized") {
          send({ method: "ui/notifications/tool-result", params: result });
        } else if (data.method === "tools/call") {
          const next = window.results.shift();
          const refused = { error: { code: 403, message: "refused" } };
          send({ id: data.id, ...(next ? { result: next } : refused) });
        } else if (data.id !== undefined) {
          send({ id: data.id, result: {} });
        }
      });
      const policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'";
      const meta = `<meta http-equiv="content-security-policy" content="${policy}">`;
      frame.srcdoc = html.replace("<head>", `<head>${meta}`);
      document.body.append(frame);
    },
    { html, result },
  );
  shown = await (await page.waitForSelector("iframe")).contentFrame();
  return look();
}

// What the host answers the next call of a tool.
async function answering({ result }) {
  await page.evaluate((result) => window.results.push(result), result);
  return {};
}

// What the card has asked its host for.
async function asked() {
  return page.evaluate(() => window.asked);
}

// The page of a host, which loads packages of npm as they are.
const HOST = "http://host.test/";
const MODULES = new URL("node_modules/", import.meta.url);
const IMPORTS = {
  "@modelcontextprotocol/client": "/@modelcontextprotocol/client/dist/index.mjs",
  "@modelcontextprotocol/client/_shims": "/@modelcontextprotocol/client/dist/shimsBrowser.mjs",
  "@modelcontextprotocol/core": "/@modelcontextprotocol/core/dist/index.mjs",
  "@modelcontextprotocol/core/internal": "/@modelcontextprotocol/core/dist/internal.mjs",
  "@modelcontextprotocol/ext-apps/app-bridge": "/@modelcontextprotocol/ext-apps/dist/src/app-bridge.js",
  eventsource: "/eventsource/dist/index.js",
  "eventsource-parser": "/eventsource-parser/dist/index.js",
  "eventsource-parser/stream": "/eventsource-parser/dist/stream.js",
  "pkce-challenge": "/pkce-challenge/dist/index.browser.js",
  "zod/v4": "/zod/v4/index.js",
};
await context.route(`${HOST}**`, async (route) => {
  const { pathname } = new URL(route.request().url());
  if (pathname === "/") {
    const body = `<!doctype html><script type="importmap">${JSON.stringify({ imports: IMPORTS })}</script>`;
    return route.fulfill({ contentType: "text/html", body });
  }
  return route.fulfill({ contentType: "text/javascript", body: await readFile(new URL(`.${pathname}`, MODULES)) });
});
let client;
await context.exposeFunction("callTool", (params) => client.callTool(params));

// Shows the card of a tool's result as a client does: the result and the card come from the service, and the
// bridge of the package for cards is between the card and the service.
async function bridge({ url, token, tool, arguments: args }) {
  const own = { name: "host", version: "1" };
  const extensions = { "io.modelcontextprotocol/ui": { mimeTypes: [RESOURCE_MIME_TYPE] } };
  client = new Client(own, { capabilities: { extensions }, versionNegotiation: { mode: { pin: "2026-07-28" } } });
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  const { tools } = await client.listTools();
  const uri = getToolUiResourceUri(tools.find(({ name }) => name === tool));
  const { contents } = await client.readResource({ uri });
  const result = await client.callTool({ name: tool, arguments: args });
  errors = [];
  await page.goto(HOST);
  await page.evaluate(
    async ({ own, html, args, result }) => {
      const { AppBridge, PostMessageTransport } = await import("@modelcontextprotocol/ext-apps/app-bridge");
      const frame = document.createElement("iframe");
      frame.sandbox = "allow-scripts";
      document.body.append(frame);
      const bridge = new AppBridge(null, own, { openLinks: {}, serverTools: {} });
      window.opened = [];
      bridge.oncalltool = (params) => window.callTool(params);
      bridge.onopenlink = async ({ url }) => {
        window.opened.push(url);
        return {};
      };
      bridge.oninitialized = async () => {
        await bridge.sendToolInput({ arguments: args });
        await bridge.sendToolResult(result);
      };
      await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
      frame.srcdoc = html;
    },
    { own, html: contents[0].text, args, result },
  );
  shown = await (await page.waitForSelector("iframe")).contentFrame();
  return { uri, ...(await look()) };
}

// The links that the card has asked its host to open.
async function opened() {
  return page.evaluate(() => window.opened);
}

const commands = { press, card, answering, asked, bridge, opened };
for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...input } = JSON.parse(line);
  print(await commands[command](input));
}
await browser.close();
process.exit(0);
