// An older copy of the data is put back under pages that are open: they show what is so now, not what they remember, and
// the log says that it is another one.

import assert from "node:assert/strict";

const proof = ".verified";
const is = (state) => `${proof}[data-verify=${state}]`;

/** Puts the service back to an older copy, after something has happened that the copy does not have. */
async function restart(world, put) {
  await world.servers[0].kill();
  const made = put();
  await world.servers[0].start();
  return made;
}

export const tests = {
  "every page goes back to what the copy has, and the log says so": async ({ world, open }) => {
    const channel = await world.channel("restored");
    const kept = await world.task(channel, "Is in the copy");
    const said = await world.admin.call("post_message", { thread_id: kept.id, body: "Said before the copy" });
    const [board, task, log] = [await open(world.admin), await open(world.admin), await open(world.admin)];
    await board.at("board?channel=restored");
    await task.at(`t/${kept.id}`);
    await log.at("log");
    await log.waitForSelector(is("whole"));
    const restore = await restart(world, () => world.copy());
    for (const page of [board, task, log]) await page.live("live");

    const lost = await world.task(channel, "Is not in the copy");
    await world.claimed(world.agent, kept.id);
    await world.agent.call("post_message", { thread_id: kept.id, body: "Said after the copy" });
    await board.inLane(lost.id, "ready");
    await board.inLane(kept.id, "running");
    await task.says(".timeline", /Said after the copy/);
    await task.says("[data-panel=claim]", /Held by/);
    const proved = world.agent.lsn;
    await log.getByRole("button", { name: "Verify again" }).click();
    await log.waitForSelector(`${is("whole")}[data-checked="${proved}"]`);

    await restart(world, restore);
    await board.waitForSelector(`[data-thread="${lost.id}"]`, { state: "detached" });
    await board.inLane(kept.id, "ready");
    await task.waitForSelector("[data-panel=claim] [data-why=free]");
    await task.waitForSelector(`[data-message="${said.id}"]`);
    assert.ok(!(await task.texts(".timeline")).join().includes("after the copy"));
    for (const page of [board, task]) await page.live("live");
    await log.waitForSelector(is("rewritten"));
    await log.says(proof, new RegExp(`rolled back: it ends before event ${proved}`));
    // What happens from then on is shown, under numbers that were used before.
    await world.claimed(world.agent, kept.id);
    await board.inLane(kept.id, "running");
    await task.says("[data-panel=claim]", /Held by/);
  },

  "a copy that has grown past what a page has heard is told from the log it knew": async ({ world, open }) => {
    const channel = await world.channel("regrown");
    const kept = await world.task(channel, "Is in this copy");
    const page = await open(world.admin);
    await page.at("board?channel=regrown");
    const restore = await restart(world, () => world.copy());
    await page.live("live");
    const lost = await world.task(channel, "Is not in this copy");
    await world.claimed(world.agent, kept.id);
    await page.inLane(lost.id, "ready");
    await page.inLane(kept.id, "running");
    const heard = world.agent.lsn;
    world.proxy.down(true);
    await page.live("offline");
    await restart(world, restore);
    let written;
    do written = await world.task(channel, "Is written instead");
    while (world.admin.lsn <= heard + 5);
    world.proxy.down(false);
    await page.evaluate(() => dispatchEvent(new Event("online")));
    await page.inLane(written.id, "ready");
    await page.waitForSelector(`[data-thread="${lost.id}"]`, { state: "detached" });
    await page.inLane(kept.id, "ready");
    await page.live("live");
  },
};
