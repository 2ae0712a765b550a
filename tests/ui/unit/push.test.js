// The worker shows what the service has pushed, in the service's words alone, and opens what it is about.

import assert from "node:assert/strict";
import { test } from "node:test";

const SCOPE = "https://svc.example/prefix/ui/";
const heard = {};
const shown = [];
const opened = [];
let pages = [];

globalThis.self = {
  location: new URL(`${SCOPE}push.js`),
  addEventListener: (name, listener) => (heard[name] = listener),
  skipWaiting: () => {},
  registration: { scope: SCOPE, showNotification: async (title, how) => void shown.push({ title, ...how }) },
  clients: { matchAll: async () => pages, openWindow: async (href) => void opened.push(href) },
};
await import("../../../svc-http/ui/push.js");

/** What comes of an event, once all that it waits for is done. */
async function send(name, event) {
  const waits = [];
  heard[name]({ ...event, waitUntil: (promise) => waits.push(promise) });
  await Promise.all(waits);
}

const pushed = (data) => send("push", { data: { json: () => JSON.parse(data) } });

const TASK = {
  channel_id: "c1",
  channel: "general",
  thread_id: "t1",
  thread: "Rotate the keys",
  message_id: "m1",
  at: "2026-11-26T16:00:00.000000Z",
  reason: "mention",
  actor: "ada",
  preview: "may I?",
  count: 1,
};

async function told(more) {
  shown.length = 0;
  await pushed(JSON.stringify({ ...TASK, ...more }));
  assert.equal(shown.length, 1);
  return shown[0];
}

test("a task is told of by its title, and one notification replaces the last of it", async () => {
  const { title, body, tag, data, timestamp } = await told({});
  assert.deepEqual([title, body, tag], ["Rotate the keys", "ada: may I?", "t1"]);
  assert.equal(data.place, "t/t1#m-m1");
  assert.equal(timestamp, Date.parse(TASK.at));
  assert.equal((await told({ count: 12 })).title, "Rotate the keys (12)");
});

test("words that are not sent are not made up", async () => {
  const { title, body } = await told({ thread: null, preview: null });
  assert.deepEqual([title, body], ["#general", "ada"]);
  assert.equal((await told({ thread: null, channel: null })).title, "ada");
  assert.equal((await told({ thread: null, channel: null, actor: null, preview: null })).title, "svc.example");
});

test("what hides or turns words is taken out of them", async () => {
  const { title, body } = await told({ thread: "safe\u202etxt.exe\u0000", preview: "<b>\u2067x</b>" });
  assert.deepEqual([title, body], ["safe txt.exe ", "ada: <b> x</b>"]);
});

test("what cannot be read is shown all the same, as nothing", async () => {
  for (const data of [{ json: () => JSON.parse("no") }, { json: () => null }, null]) {
    shown.length = 0;
    await send("push", { data });
    assert.deepEqual([shown[0]?.title, shown[0]?.body, shown[0]?.data.place], ["svc.example", "", ""]);
  }
});

/** @param {string} place */
const pressed = (place) => send("notificationclick", { notification: { close: () => {}, data: { place } } });

test("a press opens the place, on a page of the board if there is one", async () => {
  await pressed("t/t1#m-m1");
  assert.deepEqual(opened, [`${SCOPE}t/t1#m-m1`]);
  const messages = [];
  const page = (url) => ({ url, focus: async () => {}, postMessage: (message) => messages.push({ url, message }) });
  pages = [page("https://svc.example/other/"), page(`${SCOPE}board`)];
  await pressed("c/c1");
  assert.deepEqual(messages, [{ url: `${SCOPE}board`, message: { open: `${SCOPE}c/c1` } }]);
  assert.equal(opened.length, 1);
});
