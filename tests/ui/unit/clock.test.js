// The server's clock from whole seconds, and what is left of a lease by it.

import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { ms, newClock, offset, sample, serverNow, timeLeft } from "../../../svc-http/ui/pure/clock.js";

const header = (time) => new Date(time).toUTCString();

/** An answer of a server that is ahead, on a way that takes its time. */
function answer(sent, ahead, there, back) {
  return { sent, received: sent + there + back, date: header(Math.floor((sent + there + ahead) / 1000) * 1000) };
}

test("without an answer nothing is known, and our clock is taken", () => {
  assert.equal(newClock().samples.length, 0);
  assert.equal(serverNow(newClock(), 5), 5);
  const isTaken = (heard) => sample(newClock(), heard).samples.length > 0;
  for (const date of [null, "", "yesterday"]) assert.ok(!isTaken({ sent: 0, received: 1, date }));
  assert.ok(!isTaken({ sent: 5, received: 4, date: header(0) }));
});

test("the offset is right within what an answer can tell, ahead or behind", () => {
  const ahead = fc.integer({ min: -700_000, max: 700_000 });
  const ways = fc.array(fc.tuple(fc.nat(900), fc.nat(900)), { minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(ahead, ways, fc.nat(10_000_000), (ahead, ways, begin) => {
      let clock = newClock();
      ways.forEach(([there, back], at) => {
        clock = sample(clock, answer(1_790_000_000_000 + begin + at * 1337, ahead, there, back));
      });
      const shortest = Math.min(...ways.slice(-10).map(([there, back]) => there + back));
      assert.ok(Math.abs(offset(clock) - ahead) <= shortest / 2 + 501, `${offset(clock)} for ${ahead}`);
    }),
  );
});

test("the last ten answers count, and of them the quickest", () => {
  let clock = sample(newClock(), answer(1_000_000, 0, 1, 1));
  for (let at = 1; at <= 10; at += 1) clock = sample(clock, answer(1_000_000 + at * 1000, 0, 400, 100));
  assert.equal(clock.samples.length, 10);
  assert.ok(clock.samples.every(({ trip }) => trip === 500));
});

test("once a clock was set, what was measured before counts no more", () => {
  let clock = newClock();
  for (let at = 0; at < 5; at += 1) clock = sample(clock, answer(1_000_000 + at * 1000, 0, 1, 1));
  clock = sample(clock, answer(1_010_000, 600_000, 300, 300));
  assert.ok(Math.abs(offset(clock) - 600_000) < 1000);
});

test("time left is told by share and by length, and ends as due", () => {
  const left = (rest, whole) => timeLeft(1_000_000 + rest, 1_000_000, whole).state;
  assert.equal(left(600_000, 1_000_000), "plenty");
  assert.equal(left(200_000, 1_000_000), "plenty");
  assert.equal(left(199_999, 1_000_000), "amber");
  assert.equal(left(30_000, 1_000_000), "amber");
  assert.equal(left(29_999, 1_000_000), "red");
  assert.equal(left(29_999), "red");
  assert.equal(left(120_000), "plenty");
  assert.equal(left(119_999), "amber", "of what nobody knows the length, minutes are little");
  assert.equal(left(1), "red");
  assert.equal(left(0), "due");
  assert.equal(left(-5000), "due");
  assert.deepEqual(timeLeft(5, 10, 100), { ms: 0, state: "due", share: 0 });
  assert.equal(timeLeft(50, 0, 100).share, 0.5);
  assert.equal(timeLeft(50, 0).share, null);
});

test("times of the API are read, and nothing else", () => {
  assert.equal(ms("2026-01-01T00:00:00.000000Z"), Date.UTC(2026, 0, 1));
  assert.deepEqual([ms(null), ms(undefined), ms(""), ms("soon")], [null, null, null, null]);
});
