// A service with people and an agent: the real programs on a data folder of their own, and clients of it.
//
// Promises: it listens on the loopback address alone, and all of it is gone when the world ends. Leaves out: browsers
// (page.js).

import { spawn, execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { freePorts, startFront } from "./front.js";
import { startProvider } from "./oidc.js";
import { startProxy } from "./proxy.js";

/** The folder with svc and svc-http. */
const PROGRAMS = process.env.SVC_TEST_PROGRAMS;

/** The environment of our programs: no variable of whoever runs the tests, but for the database. */
function environment(more) {
  const kept = Object.entries(process.env).filter(([name]) => !/^(SVC_|DATABASE_URL)/.test(name));
  const database = process.env.SVC_TEST_DATABASE ? { DATABASE_URL: process.env.SVC_TEST_DATABASE } : {};
  return {
    ...Object.fromEntries(kept),
    ...database,
    SVC_RATE_LIMIT_MAX: "0",
    SVC_WORKSPACE_RATE_LIMIT_MAX: "0",
    ...more,
  };
}

/** How often ports for proxies are chosen: another program may take one that was free a moment ago. */
const TRIES = 5;

/** Anybody can sign in at the mock of an identity provider. */
const PEOPLE = { SVC_OIDC_ENABLED: "1", SVC_OIDC_MOCK: "1", SVC_OIDC_AUTO_PROVISION: "1" };

/** A server, which can be killed and comes back at the same address. */
function makeServer(folder, variables) {
  let running = null;
  const server = {
    address: "127.0.0.1:0",
    async start() {
      running = spawn(join(PROGRAMS, "svc-http"), ["--data", folder, "--listen", server.address], {
        env: environment(variables),
        stdio: ["ignore", "pipe", "ignore"],
      });
      const ended = new Promise((_, fail) =>
        running.once("exit", (code) => fail(new Error(`svc-http ended: ${code}`))),
      );
      ended.catch(() => {});
      const lines = createInterface({ input: running.stdout })[Symbol.asyncIterator]();
      const { value } = await Promise.race([lines.next(), ended]);
      server.address = /127\.0\.0\.1:\d+/.exec(value)[0];
    },
    async kill() {
      const gone = new Promise((resolve) => running.once("exit", resolve));
      running.kill("SIGKILL");
      await gone;
    },
    /** It is there, takes connections, and answers nothing. @param {boolean} stopped */
    stop: (stopped) => running.kill(stopped ? "SIGSTOP" : "SIGCONT"),
  };
  return server;
}

/** A client that says what was refused. `lsn` is how far the log went at its last answer. */
function makeClient(operations, address, workspaceId, token) {
  const client = {
    token,
    lsn: 0,
    /** Sends whatever it is, and returns the response. */
    async send(name, input = {}) {
      const { method, path } = operations.get(name);
      const rest = { workspace_id: workspaceId, ...input };
      const filled = path.replace(/\{(\w+)\}/g, (_, field) => {
        const value = rest[field];
        delete rest[field];
        return encodeURIComponent(value);
      });
      if (input.workspace_id === undefined) delete rest.workspace_id;
      const hasBody = !["GET", "DELETE"].includes(method);
      const url = new URL(filled, `http://${address()}`);
      if (!hasBody) for (const [field, value] of Object.entries(rest)) url.searchParams.set(field, String(value));
      const headers = { authorization: `Bearer ${token}`, ...(hasBody && { "content-type": "application/json" }) };
      const response = await fetch(url, { method, headers, body: hasBody ? JSON.stringify(rest) : undefined });
      client.lsn = Number(response.headers.get("svc-room-lsn") ?? client.lsn);
      return response;
    },
    /** Calls an operation that must succeed. */
    async call(name, input) {
      const response = await client.send(name, input);
      const text = await response.text();
      if (!response.ok) throw new Error(`${name}: ${response.status} ${text}`);
      return text ? JSON.parse(text) : null;
    },
    /** Calls an operation that must be refused with this code. */
    async refused(name, input, code) {
      const response = await client.send(name, input);
      const body = await response.json();
      if (response.ok || !body.type.endsWith(`/${code}`)) throw new Error(`${name}: ${JSON.stringify(body)}`);
      return body;
    },
  };
  return client;
}

/**
 * Starts a world.
 *
 * @param {{variables?: Record<string, string>, behind?: {prefix?: string, rewritesHost?: boolean}, fronts?: import("./front.js").Front[], directory?: Record<string, Record<string, unknown>>, publicPath?: string}} how
 * `behind`: what the proxy of the tests does to every request; `fronts`: real proxies that are before the service instead;
 * `directory`: people of a provider of its own, instead of the mock's; `publicPath`: the service is told its public address,
 * that of the first front if there are any, with this path.
 */
export async function startWorld({ variables = {}, behind = {}, fronts = [], directory, publicPath } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "svc-board-"));
  const contract = execFileSync(join(PROGRAMS, "svc"), ["contract", "operations", "--json"], { maxBuffer: 1 << 24 });
  const operations = new Map(JSON.parse(contract.toString()).map((row) => [row.name, row]));
  const founded = execFileSync(join(PROGRAMS, "svc"), ["init", "--json", "--data", folder], { env: environment({}) });
  const { workspace, admin, token, agent, agent_token } = JSON.parse(founded.toString());
  const proxy = await startProxy(behind);
  const provider = directory ? await startProvider(directory) : null;

  /** Starts the servers, and the fronts at these ports. */
  async function begin(ports) {
    const origins = ports.map((port) => `http://127.0.0.1:${port}`);
    const origin = origins[0] ?? `http://127.0.0.1:${proxy.port}`;
    const told = publicPath === undefined ? {} : { SVC_PUBLIC_URL: `${origin}${publicPath}` };
    const people = provider?.variables(`${origin}${publicPath ?? ""}`) ?? PEOPLE;
    const servers = Array.from({ length: Number(process.env.SVC_TEST_SERVERS ?? 1) }, () =>
      makeServer(folder, { ...people, ...told, ...variables }),
    );
    for (const server of servers) await server.start();
    const started = await Promise.allSettled(
      fronts.map((front, at) => startFront(front, servers[0].address, ports[at])),
    );
    const end = async () => {
      await Promise.all(started.map(({ value }) => value?.close()));
      for (const server of servers) await server.kill();
    };
    const failed = started.find(({ reason }) => reason);
    if (failed) await end();
    return { origin, origins, servers, end, failure: failed?.reason };
  }

  let begun = await begin(await freePorts(fronts.length));
  for (let tried = 1; begun.failure && tried < TRIES; tried += 1) begun = await begin(await freePorts(fronts.length));
  if (begun.failure) throw begun.failure;
  const { origin, origins, servers, end } = begun;
  proxy.to(servers[0].address);
  const boards = fronts.map(({ path = "/svc" }, at) => `${origins[at]}${path}/ui/`);

  /** What is not done by a browser goes to the last server. */
  const address = () => servers.at(-1).address;
  const clientOf = (secret) => makeClient(operations, address, workspace.id, secret);
  const world = {
    workspaceId: workspace.id,
    operations,
    servers,
    proxy,
    /** What browsers may ask: the service and its identity provider, and no other. */
    origins: [origin, ...origins, ...(provider ? [provider.issuer] : [])].map((one) => new URL(one).host),
    /** The board, as a browser gets it: through the first front if there are any. */
    url: boards[0] ?? `${origin}${behind.prefix ?? ""}/ui/`,
    /** The board through each front. */
    boards,
    /** The administrator, a person, and an agent of the service's set-up. */
    admin: Object.assign(clientOf(token.secret), { id: admin.id, handle: admin.handle }),
    agent: Object.assign(clientOf(agent_token.secret), { id: agent.id, handle: agent.handle }),
    clientOf,
    /** A person who has signed in at the identity provider, with a token for what a test does for them. */
    async person(name) {
      const query = new URLSearchParams({ workspace_id: workspace.id, sub: name, email: `${name}@corp.example`, name });
      const { cookie } = await signInAt(address(), `/auth/oidc/login?${query}`);
      const session = await (await fetch(`http://${address()}/auth/session`, { headers: { cookie } })).json();
      const capabilities = session.capabilities.filter((one) => one !== "artifact:upload");
      const { secret } = await world.admin.call("mint_token", { member_id: session.member_id, capabilities });
      return Object.assign(clientOf(secret), { id: session.member_id, handle: session.handle });
    },
    /** Another agent. */
    async newAgent(handle) {
      const made = await world.admin.call("create_agent", { handle });
      return Object.assign(clientOf(made.token.secret), { id: made.member.id, handle });
    },
    /** A channel for the tasks of one test, so that they meet no others. @param {string} name */
    channel: async (name) => (await world.admin.call("create_channel", { name })).id,
    /** A task of the administrator. @param {string} channelId @param {string} title */
    task: (channelId, title, more = {}) => world.admin.call("create_thread", { channel_id: channelId, title, ...more }),
    /** A task that is claimed by somebody, who has acknowledged it. */
    async claimed(client, threadId, more = {}) {
      return client.call("claim_thread", { thread_id: threadId, acknowledge: true, lease_secs: 1200, ...more });
    },
    /** The cookie of a session by a token. */
    async session(secret) {
      const response = await fetch(`http://${address()}/auth/session/from-token`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ token: secret }),
      });
      return cookieOf(response, "svc_session");
    },
    /**
     * Copies the data folder, while no server runs, and returns what puts the copy back.
     *
     * @returns {() => void}
     */
    copy() {
      const other = `${folder}-copy`;
      cpSync(folder, other, { recursive: true });
      return () => {
        rmSync(folder, { recursive: true });
        cpSync(other, folder, { recursive: true });
        rmSync(other, { recursive: true });
      };
    },
    async close() {
      await end();
      await provider?.close();
      await proxy.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  return world;
}

function cookieOf(response, name) {
  const found = response.headers.getSetCookie().find((one) => one.startsWith(`${name}=`));
  return found?.split(";")[0];
}

/** Follows a sign-in at the mock of a provider to its end. */
async function signInAt(address, path) {
  const begun = await fetch(`http://${address}${path}`, { redirect: "manual" });
  const back = new URL(begun.headers.get("location"), `http://${address}`);
  const cookie = cookieOf(begun, "svc_oidc");
  const done = await fetch(`http://${address}${back.pathname}${back.search}`, {
    headers: { cookie },
    redirect: "manual",
  });
  return { cookie: cookieOf(done, "svc_session") };
}
