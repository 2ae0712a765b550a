// The socket is believed by a clock that nobody sets, and of a session that has ended nothing is tried.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createLive } from "../../../svc-http/ui/net/live.js";

const HOUR = 3_600_000;
const turn = async () => {
  for (let time = 0; time < 20; time += 1) await new Promise(setImmediate);
};

/** A follower whose sockets and clocks are moved by hand. */
function following(context) {
  context.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  let [passed, onWall] = [50_000, 10_000_000];
  context.mock.method(performance, "now", () => passed);
  context.mock.method(Date, "now", () => onWall);
  const sockets = [];
  globalThis.WebSocket = class {
    static CONNECTING = 0;
    static OPEN = 1;
    readyState = 0;
    on = {};
    constructor() {
      sockets.push(this);
    }
    addEventListener(name, told) {
      this.on[name] = told;
    }
    send() {}
    close() {
      this.readyState = 3;
    }
    tell(frame) {
      this.on.message({ data: JSON.stringify(frame) });
    }
    begin(lsn) {
      this.readyState = 1;
      this.on.open();
      this.tell({ type: "subscribe_ack", after_id: lsn, room_lsn: lsn });
    }
  };
  const told = [];
  const probes = [];
  const hooks = {
    events: () => {},
    gap: () => {},
    state: (state) => told.at(-1) !== state && told.push(state),
    refused: (reason) => told.push(reason),
    rewound: () => told.push("rewound"),
    probe: () => new Promise((answer, refuse) => probes.push({ answer, refuse })),
    head: async () => ({ lsn: 1, hash: "h" }),
    hashAt: async () => "h",
  };
  const address = () => new URL("http://there/socket");
  const live = createLive({ address, workspaceId: "w", afterId: 1, hooks });
  context.after(() => live.close());
  const pass = async (ms) => {
    for (let left = ms; left > 0; left -= 1_000) {
      passed += 1_000;
      onWall += 1_000;
      context.mock.timers.tick(1_000);
      await turn();
    }
  };
  const setClock = (by) => (onWall += by);
  return { live, sockets, told, probes, pass, setClock };
}

test("a clock that is set back an hour is noticed, and a socket that is silent is still found out", async (context) => {
  const { sockets, told, probes, pass, setClock } = following(context);
  sockets[0].begin(1);
  await pass(1_000);
  assert.equal(probes.length, 0);
  setClock(-HOUR);
  await pass(1_000);
  assert.equal(probes.length, 1, "the time of the server is asked for");
  probes[0].answer(1);
  await pass(31_000);
  assert.equal(probes.length, 2, "a silence is as long as before");
  probes[1].refuse({ status: 0 });
  await turn();
  assert.deepEqual(told, ["live", "offline"]);
  await pass(1_000);
  assert.equal(sockets.length, 2);
});

test("a socket that does not open, and one that is behind, are given up also by a clock that was set back", async (context) => {
  const { live, sockets, told, probes, pass, setClock } = following(context);
  setClock(-HOUR);
  await pass(12_000);
  assert.deepEqual([told, sockets.length], [["offline"], 2]);
  sockets[1].begin(1);
  live.ahead(5);
  await pass(1_000);
  setClock(-HOUR);
  await pass(5_000);
  assert.equal(sockets.length, 3);
  for (const { answer } of probes) answer(5);
});

test("a machine that slept looks at its socket at once", async (context) => {
  const { sockets, probes, pass, setClock } = following(context);
  sockets[0].begin(1);
  setClock(HOUR);
  await pass(1_000);
  assert.equal(probes.length, 1);
});

test("of a session that has ended nothing is tried until there is another", async (context) => {
  const { live, sockets, told, probes, pass } = following(context);
  sockets[0].begin(1);
  sockets[0].on.close({ code: 1008, reason: "unauthenticated" });
  live.end();
  await pass(120_000);
  live.wake();
  await pass(120_000);
  assert.deepEqual([sockets.length, probes.length, told], [1, 0, ["live", "offline", "unauthenticated"]]);
  live.renew();
  sockets[1].begin(1);
  await turn();
  assert.equal(told.at(-1), "live");
});
