// A proxy between a browser and the service, which does what networks and proxies do: it strips a prefix, rewrites
// Host, says nothing any more, delays, reorders, cuts and changes answers, and writes down what goes elsewhere.
//
// A rule is about the requests whose method and path its pattern finds, such as /^GET \/threads\//.

import { createServer, request as ask } from "node:http";
import { connect } from "node:net";

/**
 * @param {{prefix?: string, rewritesHost?: boolean}} how `prefix` is stripped; `rewritesHost`: the service sees its own
 * address as Host, as nginx has it without a setting.
 */
export async function startProxy({ prefix = "", rewritesHost = false } = {}) {
  let upstream;
  const rules = new Set();
  const pairs = new Set();
  const frozen = [];
  const elsewhere = [];
  let isDown = false;
  const server = createServer((request, response) => void forward(request, response));

  function targetOf({ url }) {
    // What a browser sends to a proxy of its own has a whole address.
    if (!url.startsWith("/")) elsewhere.push(url);
    return url.startsWith(`${prefix}/`) ? url.slice(prefix.length) : null;
  }

  function headersOf(request) {
    return { ...request.headers, host: rewritesHost ? upstream : request.headers.host, "accept-encoding": "identity" };
  }

  /** The rule that is next for a request; one that counts down is used up. */
  function ruleFor(request, target) {
    const rule = [...rules].find(({ pattern }) => pattern.test(`${request.method} ${target}`));
    if (rule?.isOnce) rules.delete(rule);
    return rule;
  }

  async function forward(request, response) {
    const target = targetOf(request);
    if (target === null) return response.writeHead(404).end();
    if (isDown) return request.socket.destroy();
    const rule = ruleFor(request, target);
    const [address, port] = upstream.split(":");
    const sent = ask({ host: address, port, method: request.method, path: target, headers: headersOf(request) });
    request.pipe(sent);
    sent.on("error", () => response.destroy());
    sent.on("response", (answer) => void answered(rule, answer, request, response));
  }

  async function answered(rule, answer, request, response) {
    if (!rule) return response.writeHead(answer.statusCode, answer.rawHeaders) && answer.pipe(response);
    const chunks = [];
    for await (const chunk of answer) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    await rule.act({ status: answer.statusCode, headers: answer.headers, text: body.toString() }, (text) => {
      // A browser itself repeats what was cut off before the first byte on a connection that was used before.
      if (text === null)
        return response.writeHead(answer.statusCode, answer.headers).write("{", () => request.socket.destroy());
      const changed = text === undefined ? body : Buffer.from(text);
      const headers = { ...answer.headers, "content-length": changed.length };
      delete headers["transfer-encoding"];
      response.writeHead(answer.statusCode, headers).end(request.method === "HEAD" ? undefined : changed);
    }, request);
  }

  server.on("upgrade", (request, socket, head) => {
    const target = targetOf(request);
    if (target === null || isDown) return socket.destroy();
    const [address, port] = upstream.split(":");
    const other = connect(Number(port), address);
    const pair = { socket, other };
    const lines = Object.entries(headersOf(request)).map(([name, value]) => `${name}: ${value}`);
    other.write([`GET ${target} HTTP/1.1`, ...lines, "", ""].join("\r\n"));
    other.write(head);
    socket.pipe(other).pipe(socket);
    pairs.add(pair);
    for (const one of [socket, other]) {
      one.on("error", () => {});
      one.on("close", () => (pairs.delete(pair), socket.destroy(), other.destroy()));
    }
  });
  server.on("connect", ({ url }, socket) => (elsewhere.push(url), socket.destroy()));

  function rule(pattern, act, isOnce) {
    const made = { pattern, act, isOnce };
    rules.add(made);
    return () => rules.delete(made);
  }

  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: server.address().port,
    /** What a browser has asked for that is not of the service. */
    elsewhere,
    /** @param {string} address Where the service listens. */
    to: (address) => (upstream = address),
    /** Sockets that are open stay so, and nothing passes through them any more. */
    freeze() {
      for (const { socket, other } of pairs) {
        socket.unpipe(other).pause();
        other.unpipe(socket).pause();
        frozen.push(socket);
      }
      pairs.clear();
    },
    /** How many sockets are open of which the browser hears. */
    sockets: () => pairs.size,
    /** Nothing gets through, until it is up again. @param {boolean} down */
    down(down) {
      isDown = down;
      if (!down) return;
      for (const { socket } of pairs) socket.destroy();
      server.closeAllConnections();
    },
    /** Changes the texts of answers. @param {RegExp} pattern @param {(text: string) => string} change */
    edit: (pattern, change) => rule(pattern, ({ text }, answer) => answer(change(text)), false),
    /** Answers come so much later. @param {RegExp} pattern @param {number} ms */
    delay: (pattern, ms) => rule(pattern, (_, answer) => void setTimeout(answer, ms), false),
    /** The next request is carried out, and its answer lost. @param {RegExp} pattern */
    cut: (pattern) => new Promise((done) => rule(pattern, (heard, answer) => (answer(null), done(heard)), true)),
    /** The same, before its first byte: then a browser sends the request again by itself. @param {RegExp} pattern */
    drop: (pattern) =>
      new Promise((done) => rule(pattern, (heard, _, request) => (request.socket.destroy(), done(heard)), true)),
    /**
     * Keeps the next answer back.
     *
     * @param {RegExp} pattern
     * @returns {{kept: Promise<void>, release: () => void}} `kept`: the service has answered.
     */
    hold(pattern) {
      const gate = {};
      gate.open = new Promise((release) => (gate.release = release));
      const kept = new Promise((done) => rule(pattern, async (_, answer) => (done(), await gate.open, answer()), true));
      return { kept, release: gate.release };
    },
    /** @returns {Promise<void>} */
    close() {
      for (const socket of [...frozen, ...[...pairs].map((pair) => pair.socket)]) socket.destroy();
      server.closeAllConnections();
      return new Promise((done) => server.close(() => done()));
    },
  };
}
