// Behind nginx, Caddy and HAProxy as the manual configures them, below a path: the board, waits, a socket, a stream and
// uploads, at all of them at once.
//
// `SVC_TEST_WAIT_SECS` says how long the waits take; above 60 they outlast what proxies allow without a setting.

import assert from "node:assert/strict";

import { rootOf, send } from "./front.js";

const WAIT_SECS = Number(process.env.SVC_TEST_WAIT_SECS ?? 5);
const REVISION = "2026-07-28";
const MIB = 1 << 20;

export const world = {
  fronts: [{ name: "nginx" }, { name: "Caddy" }, { name: "HAProxy" }],
  publicPath: "/svc",
  variables: { SVC_TRUSTED_PROXY_HOPS: "1" },
};

const bearer = ({ token }) => ({ authorization: `Bearer ${token}`, "content-type": "application/json" });

/** Waits over MCP for what does not happen, and returns how the wait has ended. */
async function wait(root, client, accept) {
  const [method, name] = ["tools/call", "wait_for_mention"];
  const meta = { "io.modelcontextprotocol/protocolVersion": REVISION, "io.modelcontextprotocol/clientCapabilities": {} };
  const params = { name, arguments: { timeout_secs: WAIT_SECS }, _meta: meta };
  const begun = performance.now();
  const { status, text, type } = await send(`${root}/mcp`, {
    method: "POST",
    headers: { ...bearer(client), accept, "mcp-protocol-version": REVISION, "mcp-method": method, "mcp-name": name },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  assert.ok(status === 200 && performance.now() - begun >= WAIT_SECS * 1000, text);
  const last = text.slice(text.lastIndexOf('{"jsonrpc"'));
  return { type, timedOut: JSON.parse(last).result.structuredContent.timed_out };
}

/** The positions of the events that arrive. */
function arriving() {
  const seen = new Set();
  let changed = () => {};
  return {
    add: (lsn) => (seen.add(lsn), changed()),
    async has(lsn) {
      while (!seen.has(lsn)) await new Promise((resolve) => (changed = resolve));
    },
  };
}

/** Subscribes by WebSocket, and returns the events that arrive. */
async function subscribed(root, world) {
  const [socket, events] = [new WebSocket(`${root.replace(/^http/, "ws")}/ws/subscribe`), arriving()];
  await new Promise((done, fail) => {
    socket.onerror = socket.onclose = ({ message, reason }) => fail(new Error(message ?? reason));
    socket.onopen = () =>
      socket.send(JSON.stringify({ token: world.agent.token, filter: { workspace_id: world.workspaceId } }));
    socket.onmessage = ({ data }) => {
      const frame = JSON.parse(data);
      if (frame.type === "subscribe_ack") done();
      else events.add(frame.id);
    };
  });
  return { ...events, close: () => ((socket.onclose = null), socket.close()) };
}

/** Reads the stream of events, and returns those that arrive. */
async function streamed(root, world) {
  const [events, left] = [arriving(), new AbortController()];
  const url = `${root}/mcp/stream?workspace_id=${world.workspaceId}`;
  const response = await fetch(url, { headers: { ...bearer(world.agent), accept: "text/event-stream" }, signal: left.signal });
  assert.equal(response.status, 200);
  const read = async () => {
    let text = "";
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      const lines = (text + chunk).split("\n");
      text = lines.pop();
      for (const line of lines) if (line.startsWith("id: ")) events.add(Number(line.slice(4)));
    }
  };
  read().catch(() => {});
  return { ...events, close: () => left.abort() };
}

/** An export with white space between the parts of its records, so that it has at least this size. */
function padded(text, size) {
  const [from, to] = [text.indexOf('"records":'), text.lastIndexOf('"manifest":')];
  const records = text.slice(from, to);
  const tokens = /"(?:[^"\\]|\\.)*"|[,:]/g;
  const places = records.match(tokens).filter((token) => token.length === 1).length;
  const space = " ".repeat(Math.ceil(size / places));
  const spaced = records.replaceAll(tokens, (token) => (token.length === 1 ? token + space : token));
  return text.slice(0, from) + spaced + text.slice(to);
}

/** Imports a large file as a new workspace. */
async function imports(root, client, path, file) {
  const { status, text } = await send(`${root}${path}?mode=new`, { method: "POST", headers: bearer(client), body: file });
  assert.equal(status, 201, text);
}

/**
 * Sends what is no export, first without its end, which a proxy that keeps an upload until it is complete would wait for,
 * then all of it, while the response is on its way.
 */
async function refused(root, client, path) {
  const headers = { ...bearer(client), "content-length": 50 * MIB };
  for (const how of [{ begins: "x".repeat(8 << 10) }, { body: "x".repeat(50 * MIB) }]) {
    const { status, text } = await send(`${root}${path}?mode=new`, { method: "POST", headers, ...how });
    assert.ok(status === 400 && text.includes("not-an-export"), text);
  }
}

/** People sign in by a link and by a provider, see what others do, and stay below the path. */
async function board(url, world, open) {
  const { origin, pathname } = new URL(url);
  const path = pathname.replace(/ui\/$/, "");
  const page = await open(null);
  const outside = [];
  page.on("request", (request) => {
    const asked = new URL(request.url());
    if (!asked.pathname.startsWith(path) || asked.origin !== origin) outside.push(asked.href);
  });
  await page.goto(`${url}#${world.admin.token}`);
  await page.waitForSelector("[data-screen=sign-in] button");
  await page.keyboard.press("Enter");
  await page.waitForSelector("[data-screen=now], [data-screen=board]");
  await page.goto(`${url}board`);
  await page.live("live");
  const [cookie] = await page.context().cookies(url);
  assert.deepEqual([cookie.name, cookie.path], ["svc_session", path.replace(/\/$/, "")]);
  const task = await world.task(await world.channel(`behind ${origin}`), "Arrives through a proxy");
  await page.inLane(task.id, "ready");
  await page.locator(`[data-thread="${task.id}"] a.title`).click();
  await page.waitForURL(`${url}t/${task.id}`);
  await page.reload();
  await page.fill("textarea[name=body]", "Said through a proxy");
  await page.keyboard.press("Control+Enter");
  await page.says(".timeline [data-message]", /through a proxy/);
  assert.deepEqual(outside, []);
  // Without its last slash the path leads to the board, too.
  await page.goto(`${origin}${path.slice(0, -1)}`);
  await page.waitForSelector("[data-screen=now], [data-screen=board]");
  assert.equal(page.url(), url);

  const other = await open(null);
  await other.route(/\/auth\/oidc\/login/, (route) =>
    route.continue({ url: `${route.request().url()}&sub=ida&name=ida` }),
  );
  const wanted = `${url}board?by=channel`;
  // There are several workspaces once a file was imported.
  await other.goto(`${wanted}&workspace=${world.workspaceId}`);
  await other.click(".sign-in a.button");
  await other.waitForSelector("[data-screen=board]");
  await other.live("live");
  assert.ok(other.url().startsWith(wanted), other.url());
}

export const tests = {
  "the board, waits, a socket, a stream and uploads work through each, all at once": async ({ world, open }) => {
    const thread = await world.task(await world.channel("large"), "Is exported");
    for (let count = 0; count < 40; count += 1) await world.admin.call("post_message", { thread_id: thread.id, body: "-" });
    const exported = await world.admin.send("export_workspace", { workspace_id: world.workspaceId });
    const file = padded(await exported.text(), 50 * MIB);
    assert.ok(file.length >= 50 * MIB);
    const path = world.operations.get("import_workspace").path;

    const roots = world.boards.map(rootOf);
    const each = (work) => Promise.all(roots.map(work));
    const [json, either] = ["application/json", "application/json, text/event-stream"];
    const waits = each((root) => Promise.all([json, either].map((accept) => wait(root, world.agent, accept))));
    const followers = (
      await each((root) => Promise.all([subscribed(root, world), streamed(root, world)]))
    ).flat();
    const uploads = async () => {
      // One file is verified while it arrives, others once they have.
      for (const root of roots) await refused(root, world.admin, path);
      for (const root of roots) await imports(root, world.admin, path, file);
    };
    await Promise.all([uploads(), ...world.boards.map((url) => board(url, world, open))]);
    for (const [silent, stream] of await waits) {
      assert.deepEqual(silent, { type: "application/json", timedOut: true });
      assert.deepEqual(stream, { type: "text/event-stream", timedOut: true });
    }
    await world.admin.call("post_message", { thread_id: thread.id, body: "last" });
    const { lsn } = world.admin;
    await Promise.all(followers.map((follower) => follower.has(lsn)));
    for (const follower of followers) follower.close();
  },
};
