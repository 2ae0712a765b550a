// Which tasks the board reads, of more than it can show.

import assert from "node:assert/strict";
import { test } from "node:test";

import { readThreads } from "../../../svc-http/ui/state/threads.js";

/** A service with so many tasks of each state, all in the channel c1 but the first 700 that are open, and a store. */
function setting(counts) {
  const task = (state, at) => {
    const channel_id = state === "open" && at < 700 ? "c0" : "c1";
    return { id: `${state} ${at}`, lsn: at, state, channel_id };
  };
  const tasks = Object.entries(counts).flatMap(([state, count]) =>
    Array.from({ length: count }, (_, at) => task(state, at)),
  );
  const known = new Map();
  const asked = [];
  async function ask(op, { state, channel_id, newest_first, limit, cursor }) {
    asked.push(`${op} ${state ?? channel_id} ${newest_first}`);
    const fits = (one) => (!state || one.state === state) && (!channel_id || one.channel_id === channel_id);
    const all = tasks.filter(fits);
    const from = Number(cursor ?? 0);
    const next = from + limit < all.length ? String(from + limit) : null;
    return { body: { items: all.reverse().slice(from, from + limit), next_cursor: next }, lsn: 20_000 + asked.length };
  }
  const store = {
    put: (_, items, of) => items.forEach((one) => known.set(one.id, { ...one, of })),
    count: () => known.size,
  };
  return { known, asked, read: (changed = () => {}) => readThreads({ ask, store }, changed) };
}

/** Waits until what was read says that it is read. */
async function whole(progress) {
  while (progress.isReading) await new Promise((resume) => setImmediate(resume));
  return progress;
}

test("of more tasks than it can show the board has the newest, and says so", async () => {
  const { known, asked, read } = setting({ open: 12_000, in_review: 3, closed: 3 });
  const threads = read();
  assert.equal((await whole(threads.progress)).isWhole, false);
  assert.ok(asked.every((one) => one.endsWith(" true")), asked.join());
  assert.ok(known.has("open 11999") && known.has("open 2000") && !known.has("open 1999"));
  assert.ok(known.has("in_review 0") && known.has("closed 0"), "a little of each state");
  // What is forgotten first is what was read as of the same, and is oldest.
  assert.equal(known.get("open 11999").of, known.get("open 2000").of);
});

test("of fewer it has all, and a filter has nothing read", async () => {
  const { asked, read } = setting({ open: 1_200 });
  const threads = read();
  assert.equal((await whole(threads.progress)).isWhole, true);
  const before = asked.length;
  assert.equal(threads.narrow({ op: "list_threads", input: { channel_id: "c0" } }), threads.progress);
  assert.equal(asked.length, before);
});

test("a filter has all read that it lets through, once", async () => {
  const { known, asked, read } = setting({ open: 12_000 });
  let draws = 0;
  const threads = read(() => (draws += 1));
  const what = { op: "list_threads", input: { channel_id: "c0" } };
  assert.equal(threads.narrow(what), threads.progress, "what is being read may be all");
  await whole(threads.progress);
  const [before, drawn] = [asked.length, draws];
  assert.equal((await whole(threads.narrow(what))).isWhole, true);
  assert.ok(known.has("open 0") && known.has("open 699"));
  threads.narrow({ ...what });
  assert.equal(asked.length - before, 2, "two pages, and none anew");
  assert.ok(draws > drawn + 2, "and it is told that it is there");
  assert.equal(threads.narrow(null), threads.progress);
  const other = threads.narrow({ op: "list_threads", input: { channel_id: "c1" } });
  assert.equal((await whole(other)).isWhole, false, "also of these there are more");
});

test("what is not wanted any more is not read to its end", async () => {
  const { asked, read } = setting({ open: 12_000 });
  const threads = read();
  await whole(threads.progress);
  const before = asked.length;
  const first = threads.narrow({ op: "list_threads", input: { channel_id: "c1" } });
  threads.narrow(null);
  await whole(first);
  assert.equal(asked.length, before + 1);
});

test("what had to go for what a filter lets through is read anew after it, and else nothing", async () => {
  const closed = { op: "list_workspace_threads", input: { state: "closed" } };
  const fits = setting({ open: 12_000, closed: 800 });
  const has = fits.read();
  await whole(has.progress);
  await whole(has.narrow(closed));
  const before = fits.asked.length;
  has.narrow(null);
  assert.equal(fits.asked.length, before);
  const { known, read } = setting({ open: 12_000, closed: 5_000 });
  const threads = read();
  await whole(threads.progress);
  await whole(threads.narrow(closed));
  known.clear();
  await whole(threads.narrow(null));
  assert.ok(known.has("open 11999") && known.has("open 2000") && known.has("closed 4999"));
});
