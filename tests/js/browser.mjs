// Chromium with a person before it, an OpenID Connect provider on another site, and a hostile page on another
// port of the service's own host.
//
// The one argument is the origin of the service. The first line printed has the issuer; then each line read is
// a command, and each line printed its result, all in JSON.

import { createServer } from "node:http";
import { createInterface } from "node:readline";
import Provider from "oidc-provider";
import { chromium } from "playwright-core";

const service = process.argv[2];
// The provider prints warnings; the results have the output for themselves.
console.info = console.warn = console.error;
const print = (result) => process.stdout.write(`${JSON.stringify(result)}\n`);
const CLIENT = { client_id: "svc", client_secret: "a secret of the provider's client" };

const listening = (server) =>
  new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));

async function startProvider() {
  let callback;
  const server = createServer((request, response) => callback(request, response));
  const issuer = `http://localhost:${await listening(server)}`;
  const provider = new Provider(issuer, {
    clients: [{ ...CLIENT, redirect_uris: [`${service}/auth/oidc/callback`] }],
    pkce: { required: () => true },
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, name: `The person ${id}` }) }),
    cookies: { keys: ["a key of a test"] },
  });
  callback = provider.callback();
  return issuer;
}

// Serves one empty page, in which the scripts of the attack run.
async function startHostile() {
  const server = createServer((_, response) => {
    response.setHeader("content-type", "text/html");
    response.end("<!doctype html><title>hostile</title>");
  });
  return `http://127.0.0.1:${await listening(server)}`;
}

const issuer = await startProvider();
const hostile = await startHostile();
const browser = await chromium.launch({
  executablePath: process.env.SVC_TEST_CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
const context = await browser.newContext();
const page = await context.newPage();

// Signs in as `person`, by the provider's own pages, and returns where that ended.
async function signIn({ workspace, person }) {
  const query = new URLSearchParams({ workspace_id: workspace, return_to: "/ui/" });
  await page.goto(`${service}/auth/oidc/login?${query}`, { waitUntil: "domcontentloaded" });
  const passed = [new URL(page.url()).origin];
  await page.fill("input[name=login]", person);
  await page.fill("input[name=password]", "whatever");
  await page.click("button[type=submit]");
  await page.waitForSelector("form:not(:has(input[name=login])) button[type=submit]");
  await page.click("button[type=submit]");
  await page.waitForURL(`${service}/**`, { waitUntil: "domcontentloaded" });
  passed.push(new URL(page.url()).origin);
  const cookies = (await context.cookies(service)).map(({ name, httpOnly, sameSite }) => ({ name, httpOnly, sameSite }));
  return { passed, path: new URL(page.url()).pathname, cookies };
}

// Fetches a path of the service from one of its own pages.
async function ownFetch({ method, path, token, body }) {
  await page.goto(`${service}/health/live`);
  return page.evaluate(
    async ({ method, path, token, body }) => {
      const headers = { ...(token && { authorization: `Bearer ${token}` }), "content-type": "application/json" };
      const response = await fetch(path, { method, headers, body });
      return { status: response.status, body: await response.json() };
    },
    { method: method ?? "GET", path, token, body },
  );
}

// Opens a WebSocket in the page, sends `frame` and returns the first thing that happens.
const socket = (address, frame) =>
  page.evaluate(
    ({ address, frame }) =>
      new Promise((resolve) => {
        const socket = new WebSocket(address);
        socket.onopen = () => socket.send(JSON.stringify(frame));
        socket.onmessage = ({ data }) => resolve({ frame: JSON.parse(data) });
        socket.onclose = ({ code }) => resolve({ closed: code });
      }),
    { address, frame },
  );

const address = `${service.replace("http", "ws")}/ws/subscribe`;

async function ownSocket({ frame }) {
  await page.goto(`${service}/health/live`);
  return socket(address, frame);
}

// Tries from the hostile page whatever a page can send without being asked.
async function attack({ path, body, frame }) {
  const statuses = [];
  const seen = (response) => {
    if (response.url().startsWith(service)) statuses.push([response.request().method(), response.status()]);
  };
  await page.goto(hostile);
  page.on("response", seen);
  const fetched = await page.evaluate(
    async ({ service, path, body }) => {
      const outcome = async (target, options) => {
        try {
          const response = await fetch(service + target, { credentials: "include", ...options });
          return response.type;
        } catch {
          return "blocked";
        }
      };
      return {
        read: await outcome("/me", {}),
        silentRead: await outcome("/me", { mode: "no-cors" }),
        change: await outcome(path, { method: "POST", headers: { "content-type": "application/json" }, body }),
        silentChange: await outcome(path, { method: "POST", mode: "no-cors", body }),
      };
    },
    { service, path, body },
  );
  const websocket = await socket(address, frame);
  const submitted = page.waitForResponse((response) => response.request().method() === "POST");
  await page.evaluate(
    ({ action, body }) => {
      const form = document.createElement("form");
      Object.assign(form, { method: "post", action, enctype: "text/plain" });
      // What is sent is `{"...": "..."}=`, or nearly: the usual way to send JSON by a form.
      const field = document.createElement("input");
      Object.assign(field, { type: "hidden", name: body, value: "" });
      form.append(field);
      document.body.append(form);
      form.submit();
    },
    { action: service + path, body },
  );
  const form = (await submitted).status();
  await page.waitForURL(service + path);
  page.off("response", seen);
  return { fetched, websocket, form, statuses };
}

const commands = { signIn, ownFetch, ownSocket, attack };
print({ issuer, ...CLIENT });
for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...input } = JSON.parse(line);
  print(await commands[command](input));
}
await browser.close();
process.exit(0);
