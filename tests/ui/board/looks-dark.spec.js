// Every screen in the dark theme, wide and on a phone, and the board while it changes.

import assert from "node:assert/strict";

import { looks, openFor, violations } from "./looks.js";
import { PHONE, WIDE } from "./page.js";

/** Something happens so many times a second, until it is stopped. */
function noise(world, threadId, perSecond) {
  let [count, under] = [0, 0];
  const timer = setInterval(() => {
    if (under > 8) return;
    under += 1;
    count += 1;
    const done = () => (under -= 1);
    void world.agent.call("set_thread_priority", { thread_id: threadId, priority: count % 90 }).then(done, done);
  }, 1_000 / perSecond);
  return () => (clearInterval(timer), count);
}

export const tests = {
  "dark, wide": looks(true, WIDE),
  "dark, on a phone": looks(true, PHONE),

  "while fifty things happen in a second": async ({ world, open }) => {
    const page = await openFor(world, open, {});
    await page.at("board");
    const busy = await world.task(world.filled.channel, "Changes all the time");
    const stop = noise(world, busy.id, 50);
    const found = [...(await violations(page)), ...(await violations(page))];
    assert.ok(stop() > 10, "it was busy");
    assert.deepEqual(found, []);
  },
};
