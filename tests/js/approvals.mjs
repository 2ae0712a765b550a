// Chromium with a person before the page of an approval, and with a host around its card.
//
// Each line read is a command, and each line printed its result, all in JSON.

import { createInterface } from "node:readline";
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
// Where the approval is shown: in the page, or in a frame of it.
let shown = page;

// Returns what is shown once nothing is under way.
async function look() {
  await shown.waitForSelector("[role=status]:not(:text-is('…'))", { state: "attached" });
  return {
    title: await shown.textContent("h1"),
    text: await shown.textContent("main"),
    status: await shown.textContent("[role=status]"),
    buttons: await shown.$$eval("button", (all) => all.map(({ id }) => id)),
    has_field: (await shown.$("input")) !== null,
    images: await shown.$$eval("img, b", (all) => all.length),
    errors,
  };
}

async function open({ url }) {
  errors = [];
  shown = page;
  const response = await page.goto(url);
  return { code: response.status(), ...(await look()) };
}

// Presses a button, and returns what is shown then.
async function press({ id, token }) {
  if (token) await shown.fill("input", token);
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

// Signs out, as a browser that has forgotten its cookies.
async function forget() {
  await context.clearCookies();
  return {};
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

const commands = { open, press, forget, card, answering, asked };
for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...input } = JSON.parse(line);
  print(await commands[command](input));
}
await browser.close();
process.exit(0);
