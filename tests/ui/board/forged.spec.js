// Behind nginx, Caddy and HAProxy as the manual configures them: what a client says of who it is does not count.

import assert from "node:assert/strict";

import { rootOf, send } from "./front.js";

const REQUESTS = 6;

export const world = {
  fronts: [{ name: "nginx" }, { name: "Caddy" }, { name: "HAProxy" }],
  variables: { SVC_TRUSTED_PROXY_HOPS: "1", SVC_RATE_LIMIT_MAX: String(REQUESTS), SVC_RATE_LIMIT_WINDOW_SECS: "3600" },
};

/** The header, in different forms, for an address that the client does not have. */
const forged = (number) => [
  { "x-forwarded-for": `192.0.2.${number}` },
  { "x-forwarded-for": [`192.0.2.${number}`, `"192.0.2.${number}`] },
  { forwarded: `for=192.0.2.${number}`, "x-real-ip": `192.0.2.${number}` },
  { forwarded: `for="192.0.2.${number}`, "x-forwarded-for": ` , unknown-${number}` },
];

export const tests = {
  "a client without a token has the limit of its address, whatever it sends": async ({ world }) => {
    const counted = async (root, number) => {
      const ask = async (from, headers) => (await send(`${root}/me`, { headers, from })).status;
      const [liar, other] = [`127.0.1.${number}`, `127.0.2.${number}`];
      const statuses = [];
      for (let count = 0; count <= REQUESTS; count += 1) {
        const headers = forged(10 * number + count);
        statuses.push(await ask(liar, headers[count % headers.length]));
      }
      assert.deepEqual(statuses, [...Array(REQUESTS).fill(401), 429], root);
      assert.deepEqual([await ask(other, {}), await ask(liar, {})], [401, 429], "others have limits of their own");
    };
    await Promise.all(world.boards.map((url, at) => counted(rootOf(url), at + 1)));
  },
};
