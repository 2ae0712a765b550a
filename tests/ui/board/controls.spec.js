// What other tests rely on can fail: what a page asks of others and what its policy keeps from it is noticed, rules of
// accessibility that are broken are found, and cards do move where no pointer rests.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";

import { violations } from "./looks.js";

/** Takes what a page has reported. */
const taken = (page) => page.problems.splice(0).join("\n");

async function listening() {
  const server = createServer((_, response) => response.end()).listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: server.address().port, close: () => (server.closeAllConnections(), server.close()) };
}

export const tests = {
  "what its policy keeps from a page is noticed": async ({ world, open }) => {
    const page = await open(world.admin);
    await page.at("board");
    assert.equal(taken(page), "");
    await page.evaluate(async () => {
      const noticed = new Promise((resolve) => addEventListener("securitypolicyviolation", resolve));
      document.body.append(Object.assign(new Image(), { src: "https://elsewhere.example/a.png" }));
      await noticed;
    });
    assert.match(taken(page), /policy: img-src/);
    const isTaken = await page.evaluate(async () => {
      const noticed = new Promise((resolve) => addEventListener("securitypolicyviolation", resolve));
      try {
        document.body.innerHTML = "<b>markup</b>";
        return true;
      } catch {
        await noticed;
        return false;
      }
    });
    assert.equal(isTaken, false);
    assert.match(taken(page), /policy: require-trusted-types-for/);
    assert.deepEqual(world.proxy.elsewhere, [], "nothing was asked");
  },

  "what a page asks of another host or of another port is noticed": async ({ world, open }) => {
    const page = await open(world.admin, { bypassCSP: true });
    await page.at("board");
    const other = await listening();
    const ask = (url) => page.evaluate((url) => fetch(url, { mode: "no-cors" }).catch(() => null), url);
    await ask(`http://127.0.0.1:${other.port}/beside`);
    await ask("http://elsewhere.example/far");
    other.close();
    const problems = taken(page);
    assert.match(problems, /asked elsewhere: .*\/beside/);
    assert.match(problems, /asked elsewhere: .*elsewhere\.example\/far/);
    assert.deepEqual(world.proxy.elsewhere.splice(0), ["http://elsewhere.example/far"]);
  },

  "what breaks a rule of accessibility is found": async ({ world, open }) => {
    const page = await open(world.admin, { bypassCSP: true });
    await page.at("board");
    assert.deepEqual(await violations(page), []);
    await page.evaluate(() => {
      const faint = document.createElement("p");
      faint.textContent = "Hardly to be read";
      faint.style.cssText = "color: #bbb; background: #fff";
      document.querySelector("main").prepend(faint, document.createElement("input"));
    });
    const found = (await violations(page)).join("\n");
    assert.match(found, /color-contrast/);
    assert.match(found, /label/);
  },

  "where no pointer rests a card makes room for what arrives": async ({ world, open }) => {
    const channel = await world.channel("moving");
    const task = await world.task(channel, "Makes room", { priority: 80 });
    const page = await open(world.admin);
    await page.at("board?channel=moving");
    await page.inLane(task.id, "ready");
    await page.mouse.move(2, 2);
    const before = await page.locator(`[data-thread="${task.id}"]`).boundingBox();
    const next = await world.task(channel, "Goes first", { priority: 90 });
    await page.inLane(next.id, "ready");
    await page.waitForFunction(
      ([id, y]) => document.querySelector(`[data-thread="${id}"]`).getBoundingClientRect().y > y,
      [task.id, before.y],
    );
  },
};
