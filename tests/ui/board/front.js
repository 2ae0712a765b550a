// Real proxies before the service, configured as svc-http(8) says: nginx, Caddy and HAProxy.
//
// Promises: each runs the example of the manual, in which only addresses are changed, needs no rights and writes nothing
// outside a folder of its own. Leaves out: TLS.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const MANUAL = new URL("../../../man/svc-http.8", import.meta.url);
/** What the examples say: where the proxy finds the service, below which path it serves it, and what it sends as Host. */
const EXAMPLE = { service: "127.0.0.1:8080", path: "/svc", host: "$http_host" };
/** The host that nginx sends without a setting: the address that it asks. */
export const UNSET = "$proxy_host";

const ESCAPES = { "-": "-", e: "\\", "(ga": "`", "(dq": '"', "(aq": "'", "(ha": "^", "(ti": "~" };

/** The first example in a section of the manual, as it is shown. */
function exampleOf(section) {
  const [, after] = readFileSync(MANUAL, "utf8").split(`\n.SS ${section}\n`);
  const example = /^\.EX\n([^]*?)^\.EE$/m.exec(after ?? "")?.[1];
  if (!example) throw new Error(`svc-http(8) has no example for ${section}`);
  return example.replaceAll(/\\(\(..|.)/g, (escape, name) => {
    if (ESCAPES[name] === undefined) throw new Error(`what does ${escape} stand for?`);
    return ESCAPES[name];
  });
}

/** Replaces what must be in a text. */
function put(text, what, by) {
  if (!text.includes(what)) throw new Error(`the example does not say ${what}:\n${text}`);
  return text.replaceAll(what, () => by);
}

const TEMPORARY = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];

/**
 * By the name of the section: `program` is what to start, `listens` what the example says of its own address and what that
 * becomes, `file` what surrounds the example, `starts` how it is started, and `began` what it says once it listens.
 */
const PROGRAMS = {
  nginx: {
    program: process.env.SVC_TEST_NGINX,
    listens: ["listen 80;", (port) => `listen 127.0.0.1:${port};`],
    file: (example, folder) => `
daemon off;
pid ${folder}/pid;
error_log stderr notice;
worker_processes 1;
events { worker_connections 256; }
http {
access_log off;
${TEMPORARY.map((name) => `${name}_temp_path ${folder}/${name};`).join("\n")}
${example}
}
`,
    starts: (file, folder) => ["-p", folder, "-e", "stderr", "-c", file],
    began: "start worker process ",
  },
  Caddy: {
    program: process.env.SVC_TEST_CADDY,
    listens: ["svc.example.com {", (port) => `http://127.0.0.1:${port} {\n    bind 127.0.0.1`],
    // It waits for requests in progress when it ends, without a limit.
    file: (example) => `{\n    admin off\n    grace_period 1s\n}\n${example}`,
    starts: (file) => ["run", "--config", file, "--adapter", "caddyfile"],
    began: "serving initial configuration",
  },
  HAProxy: {
    program: process.env.SVC_TEST_HAPROXY,
    listens: ["bind :80", (port) => `bind 127.0.0.1:${port}`],
    file: (example) => example,
    starts: (file) => ["-W", "-db", "-f", file],
    began: "Loading success",
  },
};

/** Ports that are free; another program may take them. */
export async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  await Promise.all(servers.map((server) => once(server, "listening")));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => (server.close(), once(server, "close"))));
  return ports;
}

/**
 * @typedef {{name: string, path?: string, host?: string}} Front `name` is a section of the manual; `path` and `host` are
 * put in the place of those of the example.
 */

/**
 * Starts a proxy at a port. It fails if that was taken.
 *
 * @param {Front} front
 * @param {string} service the address of the service
 * @param {number} port
 * @returns {Promise<{close: () => Promise<void>}>}
 */
export async function startFront({ name, path = EXAMPLE.path, host }, service, port) {
  const { program, listens, file, starts, began } = PROGRAMS[name];
  if (!program) throw new Error(`SVC_TEST_${name.toUpperCase()} does not say where ${name} is`);
  const folder = mkdtempSync(join(tmpdir(), "svc-front-"));
  // Started by root, the workers of nginx are somebody else.
  chmodSync(folder, 0o711);
  let example = put(exampleOf(name), EXAMPLE.service, service);
  example = put(example, listens[0], listens[1](port));
  if (path !== EXAMPLE.path) example = put(example, EXAMPLE.path, path);
  if (host) example = put(example, EXAMPLE.host, host);
  const configuration = join(folder, "configuration");
  writeFileSync(configuration, file(example, folder));
  const running = spawn(program, starts(configuration, folder), {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
  });
  const gone = once(running, "exit");
  const said = [];
  for await (const line of createInterface({ input: running.stderr })) {
    said.push(line);
    if (!line.includes(began)) continue;
    running.stderr.resume();
    return {
      async close() {
        running.kill("SIGTERM");
        await gone;
        rmSync(folder, { recursive: true, force: true });
      },
    };
  }
  rmSync(folder, { recursive: true, force: true });
  throw new Error(`${name} does not start: ${said.join("\n")}`);
}

/** Where the service is, by the address of its board. @param {string} board */
export const rootOf = (board) => board.replace(/\/ui\/$/, "");

/**
 * Sends a request on a connection of its own, and waits for the response as long as it takes.
 *
 * @param {string} url
 * @param {{method?: string, headers?: Record<string, any>, body?: string, begins?: string, from?: string}} how `begins`: all
 * that is sent of the body; `from`: the address that it is sent from.
 */
export function send(url, { method = "GET", headers = {}, body, begins, from } = {}) {
  return new Promise((done, fail) => {
    const sent = request(url, { method, headers, localAddress: from, agent: false }, async (response) => {
      const chunks = [];
      try {
        for await (const chunk of response) chunks.push(chunk);
      } catch (error) {
        return fail(error);
      }
      const type = response.headers["content-type"]?.split(";")[0];
      done({ status: response.statusCode, type, text: Buffer.concat(chunks).toString() });
      sent.destroy();
    });
    sent.on("error", fail);
    if (begins === undefined) sent.end(body);
    else sent.write(begins);
  });
}
