// A link leads to the web, or to what the board shows of the workspace; whatever else it names is text.

import assert from "node:assert/strict";
import { test } from "node:test";

import { followed, thingOf, webAddress } from "../../../svc-http/ui/pure/links.js";

test("only addresses of the web are links", () => {
  const others = ["javascript:alert(1)", "data:text/html,x", "//a.example", "/path", "file:///etc/passwd", "java\nscript:x", "https://", ""];
  for (const text of others) {
    assert.equal(webAddress(text), null, text);
    assert.equal(followed(text), null, text);
  }
  assert.equal(webAddress("https://bank.example@evil.example/"), null, "what looks like a host is none");
  assert.equal(webAddress("HTTPS://A.example"), "https://a.example/");
  assert.equal(followed("https://a.example/x"), "https://a.example/x");
  assert.equal(followed("mailto:ada@a.example"), "mailto:ada@a.example");
  assert.equal(followed("svc://artifacts/1"), "svc://artifacts/1");
  assert.equal(followed(" javascript:x"), null);
});

const [w, c, t, m] = [1, 2, 3, 4].map((digit) => `01a22b19-9895-7aab-bba8-${String(digit).repeat(12)}`);

test("addresses of the workspace lead to where the board shows it", () => {
  const room = `svc://${w}/channels/${c}`;
  assert.deepEqual(thingOf(room, w), { screen: "channel", id: c });
  assert.deepEqual(thingOf(`${room}/threads/${t}`, w), { screen: "task", id: t, message: undefined });
  assert.deepEqual(thingOf(`${room}/threads/${t}/messages/${m}`.toUpperCase().replace("SVC", "svc"), w), {
    ...{ screen: "task", id: t, message: m },
  });
  assert.deepEqual(thingOf(`svc://threads/${t}`, w), { screen: "task", id: t });
  assert.deepEqual(thingOf(`svc://channels/${c}`, w), { screen: "channel", id: c });
  for (const other of [`svc://${t}/channels/${c}`, `svc://${w}`, `svc://artifacts/${w}`, `${room}/threads/x`, `https://${w}/channels/${c}`, `${room}/threads/${t}/`])
    assert.equal(thingOf(other, w), null, other);
});
