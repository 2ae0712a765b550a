// Serves the files of the board beside a server that does not serve them yet.

import { createServer, get, request as ask } from "node:http";
import { connect } from "node:net";
import { existsSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";

const UI = new URL("../../../svc-http/ui", import.meta.url).pathname;
const GOLDEN = new URL("../../golden/operations.txt", import.meta.url);
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types board";
const TYPES = { ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html; charset=utf-8", ".webmanifest": "application/manifest+json" };
const DIGEST = "dev000000000";
const headers = { "content-security-policy": CSP, "x-content-type-options": "nosniff", "referrer-policy": "same-origin", "cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin" };

const read = (port, path) => new Promise((ok, no) => get({ host: "127.0.0.1", port, path }, (r) => { let t = ""; r.on("data", (d) => (t += d)); r.on("end", () => ok(JSON.parse(t))); }).on("error", no));

async function operationsModule(port) {
  const doc = await read(port, "/openapi.json");
  const rows = {};
  const golden = readFileSync(GOLDEN, "utf8").split("\n").filter((l) => l && !l.startsWith("#")).map((l) => l.split(" | "));
  const resolve = (s) => (s && s.$ref ? s.$ref.split("/").slice(1).reduce((o, k) => o[k], doc) : s);
  for (const [name, method, p, , cap, effect] of golden) {
    const op = doc.paths[p]?.[method.toLowerCase()];
    const params = (op?.parameters ?? []).map(resolve);
    rows[name] = [method, p, cap, op?.summary ?? name, effect, { path: params.filter((x) => x.in === "path").map((x) => x.name), query: params.filter((x) => x.in === "query").map((x) => x.name) }];
  }
  const f = (m, p, c, t, e, q = []) => [m, p, c, t, e, { path: [], query: q }];
  rows.create_session = f("POST", "/auth/session/from-token", "any", "Sign a browser in", "write");
  rows.get_session = f("GET", "/auth/session", "session", "Read the session of a browser", "read");
  rows.end_session = f("POST", "/auth/logout", "session", "Sign a browser out", "destructive");
  rows.begin_oidc_login = f("GET", "/auth/oidc/login", "none", "Sign in at the identity provider", "write", ["workspace_id", "return_to"]);
  rows.subscribe = f("GET", "/ws/subscribe", "event:subscribe", "Follow the log", "read");
  rows.mcp_worker = f("POST", "/mcp/worker", "any", "The MCP endpoint of workers", "write");
  rows.openapi = f("GET", "/openapi.json", "none", "Read the schemas", "read");
  return `export default ${JSON.stringify(rows)};\n`;
}

export async function serveBeside(port) {
  let operations;
  const server = createServer(async (req, res) => {
    const p = new URL(req.url, "http://x").pathname;
    if (p === `/ui/f/${DIGEST}/operations.js`) { operations ??= await operationsModule(port); res.writeHead(200, { ...headers, "content-type": "text/javascript" }); return res.end(operations); }
    if (p.startsWith("/ui/f/")) {
      const file = join(UI, p.slice(`/ui/f/${DIGEST}/`.length));
      if (!file.startsWith(UI) || !existsSync(file)) { res.writeHead(404, headers); return res.end(); }
      res.writeHead(200, { ...headers, "content-type": TYPES[extname(file)] ?? "text/plain" });
      return res.end(readFileSync(file));
    }
    if (p === "/ui/manifest.webmanifest") { res.writeHead(200, { ...headers, "content-type": TYPES[".webmanifest"] }); return res.end(readFileSync(`${UI}/manifest.webmanifest`)); }
    if (p.startsWith("/ui/") && !p.startsWith("/ui/approvals/")) {
      const up = "../".repeat(p.slice(4).split("/").length - 1);
      res.writeHead(200, { ...headers, "content-type": TYPES[".html"], "cache-control": "no-cache" });
      return res.end(readFileSync(`${UI}/index.html`, "utf8").replaceAll("{up}", up).replaceAll("{digest}", DIGEST));
    }
    const path = req.url.replace(/([?&])reason=any(&|$)/, "$1reason=dependencies$2");
    const own = { ...req.headers, host: `127.0.0.1:${port}`, ...(req.headers.origin ? { origin: `http://127.0.0.1:${port}` } : {}) };
    const up = ask({ host: "127.0.0.1", port, method: req.method, path, headers: own }, (r) => { res.writeHead(r.statusCode, r.headers); r.pipe(res); });
    up.on("error", () => res.destroy());
    req.pipe(up);
  });
  server.on("upgrade", (req, socket, head) => {
    const up = connect(port, "127.0.0.1", () => {
      const h = { ...req.headers, host: `127.0.0.1:${port}`, ...(req.headers.origin ? { origin: `http://127.0.0.1:${port}` } : {}) };
      up.write(`GET ${req.url} HTTP/1.1\r\n${Object.entries(h).map(([k, v]) => `${k}: ${v}`).join("\r\n")}\r\n\r\n`);
      up.write(head);
      socket.pipe(up).pipe(socket);
    });
    for (const one of [socket, up]) { one.on("error", () => {}); one.on("close", () => (socket.destroy(), up.destroy())); }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: server.address().port, close: () => (server.close(), server.closeAllConnections()) };
}
