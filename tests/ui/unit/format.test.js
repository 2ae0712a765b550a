// Numbers, money and times as languages write them, and plurals.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as format from "../../../svc-http/ui/pure/format.js";
import { plural } from "../../../svc-http/ui/strings/plural.js";

/** Intl has spaces that do not break. */
const plain = (text) => text.replace(/[\u00a0\u202f\u2009]/g, " ");
const en = (name, ...values) => plain(format[name](...values, "en"));

test("numbers", () => {
  assert.equal(en("number", 1234567), "1,234,567");
  assert.equal(en("compact", 12_345), "12.3K");
  assert.deepEqual(
    [en("percent", 0.805), en("percent", 0.999), en("percent", 1), en("percent", 1.5)],
    ["80%", "99%", "100%", "150%"],
  );
  assert.deepEqual(
    [0, 999, 1500, 3_000_000].map((count) => en("bytes", count)),
    ["0 byte", "999 byte", "1.5 kB", "3 MB"],
  );
});

test("money is exact from millionths on", () => {
  const table = [
    [0, "$0.00"],
    [1_234_567, "$1.23"],
    [123_456, "$0.1235"],
    [100_000, "$0.10"],
    [-2_500_000, "-$2.50"],
    [5_000_000_000, "$5,000.00"],
  ];
  for (const [micros, wanted] of table) assert.equal(en("money", micros), wanted);
});

test("a length of time has its two largest units", () => {
  const table = [
    [0, "0 sec"],
    [-5, "0 sec"],
    [999, "0 sec"],
    [59_999, "59 sec"],
    [60_000, "1 min"],
    [61_000, "1 min 1 sec"],
    [3_600_000, "1 hr"],
    [3_605_000, "1 hr"],
    [3_660_000, "1 hr 1 min"],
    [90_061_000, "1 day 1 hr"],
  ];
  for (const [length, wanted] of table) assert.equal(en("duration", length), wanted, `${length}`);
});

test("times that are past and to come", () => {
  const now = Date.UTC(2026, 0, 10, 12);
  const table = [
    [0, "now"],
    [-45_000, "45 seconds ago"],
    [-3_500_000, "58 minutes ago"],
    [7_200_000, "in 2 hours"],
    [-86_400_000, "yesterday"],
    [86_400_000 * 3, "in 3 days"],
  ];
  for (const [away, wanted] of table) assert.equal(en("relative", now + away, now), wanted);
  assert.equal(format.when(now, now, "en"), format.time(now, "en"));
  assert.equal(format.when(now - 3 * 86_400_000, now, "en"), format.dateTime(now - 3 * 86_400_000, "en"));
});

test("another language writes them in its own way", () => {
  assert.equal(plain(format.number(1234.5, "de")), "1.234,5");
  assert.equal(plain(format.relative(Date.now() - 120_000, Date.now(), "de")), "vor 2 Minuten");
  assert.equal(format.list(["a", "b", "c"], "de"), "a, b und c");
});

test("ids are shown by what tells them apart", () => {
  assert.equal(format.shortId("01a21894-25e5-741b-afdf-34fee943a35e"), "43a35e");
});

test("plurals", () => {
  const forms = { one: "# task", other: "# tasks" };
  assert.deepEqual(
    [0, 1, 2, 1000].map((count) => plural(count, forms)),
    ["0 tasks", "1 task", "2 tasks", "1,000 tasks"],
  );
});
