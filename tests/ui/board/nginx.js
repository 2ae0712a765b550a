// A real nginx before the service, as somebody who has other things on the same host sets it up: it strips a path, and
// what it puts into Host is a name that browsers do not know.
//
// Promises: it needs no rights and writes nothing outside a folder of its own. Leaves out: TLS.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const PROGRAM = process.env.SVC_TEST_NGINX;
/** Another program may take a port that was free a moment ago. */
const TRIES = 5;
const TEMPORARY = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];

/** The host that nginx sends without a setting: the address that it asks. */
export const UNSET = "$proxy_host";

const location = (prefix, host, port) => `
    location ${prefix}/ {
      proxy_pass http://127.0.0.1:${port}/;
      proxy_http_version 1.1;
      proxy_set_header Host ${host};
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Host $http_host;
    }`;

const configuration = (hosts, port, own, folder) => `
daemon off;
pid ${folder}/pid;
error_log stderr notice;
worker_processes 1;
events { worker_connections 256; }
http {
  access_log off;
  ${TEMPORARY.map((name) => `${name}_temp_path ${folder}/${name};`).join("\n  ")}
  map $http_upgrade $connection_upgrade { default upgrade; '' close; }
  server {
    listen 127.0.0.1:${own};
    location / { return 404; }
    ${Object.entries(hosts)
      .map(([prefix, host]) => location(prefix, host, port))
      .join("")}
  }
}
`;

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** Starts it at a port, and returns how to end it; or what it has said before it ended. */
async function begin(hosts, port, own, folder) {
  const file = join(folder, "nginx.conf");
  writeFileSync(file, configuration(hosts, port, own, folder));
  const running = spawn(PROGRAM, ["-p", folder, "-e", "stderr", "-c", file], { stdio: ["ignore", "ignore", "pipe"] });
  const said = [];
  for await (const line of createInterface({ input: running.stderr })) {
    said.push(line);
    if (!line.includes("start worker process ")) continue;
    running.stderr.resume();
    return {
      async end() {
        const gone = once(running, "exit");
        running.kill("SIGTERM");
        await gone;
      },
    };
  }
  return { said: said.join("\n") };
}

/**
 * @param {Record<string, string>} hosts what it puts into Host, by the paths that it strips
 * @param {number} port where it finds the service
 * @returns {Promise<{port: number, close: () => Promise<void>}>}
 */
export async function startNginx(hosts, port) {
  if (!PROGRAM) throw new Error("SVC_TEST_NGINX does not say where nginx is");
  const folder = mkdtempSync(join(tmpdir(), "svc-nginx-"));
  // Started by root, its workers are somebody else.
  chmodSync(folder, 0o711);
  let said = "";
  for (let tried = 0; tried < TRIES; tried += 1) {
    const own = await freePort();
    const begun = await begin(hosts, port, own, folder);
    if (begun.end) {
      const close = async () => (await begun.end(), rmSync(folder, { recursive: true, force: true }));
      return { port: own, close };
    }
    said = begun.said;
  }
  throw new Error(`nginx does not start: ${said}`);
}
