// Every screen in the dark theme, wide and on a phone, and each while much changes.

import assert from "node:assert/strict";

import { looks, openFor, violations } from "./looks.js";
import { PHONE, WIDE } from "./page.js";
import { placesOf, visit } from "./tour.js";

/** Something happens so many times a second, until it is stopped: to a task, and to who works. */
function noise({ agent }, threadId, perSecond) {
  let [count, under] = [0, 0];
  const timer = setInterval(() => {
    if (under > 8) return;
    under += 1;
    count += 1;
    const done = () => (under -= 1);
    const made =
      count % 5 === 0
        ? agent.call("send_heartbeat", { status: "busy", thread_id: threadId, note: `Step ${count}` })
        : agent.call("set_thread_priority", { thread_id: threadId, priority: count % 90 });
    void made.then(done, done);
  }, 1_000 / perSecond);
  return () => (clearInterval(timer), count);
}

export const tests = {
  "dark, wide": looks(true, WIDE),
  "dark, on a phone": looks(true, PHONE),

  "every screen while fifty things happen in a second": async ({ world, open }) => {
    const pages = [];
    for (const [dark, size] of [
      [false, WIDE],
      [true, PHONE],
      [true, WIDE],
      [false, PHONE],
    ]) {
      pages.push(await openFor(world, open, { dark, size }));
    }
    const stop = noise(world, world.filled.task, 50);
    const wrong = [];
    const begun = performance.now();
    // One address of each screen, in one of the four; all of it is looked at in a quiet world.
    for (const [at, { id, path }] of placesOf({ ...world.filled, tasks: [] }).entries()) {
      const page = pages[at % pages.length];
      await visit(page, id, path, async (name) => {
        for (const one of await violations(page)) wrong.push(`${name}: ${one}`);
      });
    }
    const perSecond = (stop() * 1_000) / (performance.now() - begun);
    assert.ok(perSecond > 10, `it was busy: ${perSecond}`);
    assert.deepEqual(wrong, []);
  },
};
