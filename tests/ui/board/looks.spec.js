// Every screen for everyone: by the rules of WCAG 2.2 A and AA as axe-core checks them, in both themes, wide and on a
// phone, also while the page changes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { fill } from "./fill.js";
import { PHONE, WIDE } from "./page.js";
import { tour } from "./tour.js";

const axe = readFileSync(createRequire(`${process.env.SVC_TEST_UI}/tests.js`).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
/** A finger is this wide, in pixels. */
const FINGER = 44;

/** What axe finds wrong. */
async function violations(page) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe);
  return page.evaluate(async (rules) => {
    const { violations } = await globalThis.axe.run(document, { runOnly: rules, resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => {
      const where = nodes.slice(0, 3).map(({ target, any, all, none }) => `${target.join(" ")} (${[...any, ...all, ...none][0]?.message ?? ""})`);
      return `${id}, ${nodes.length} times: ${where.join("; ")}`;
    });
  }, RULES);
}

let filled;
const words = (operation, field) => `${field.replace(/\W/g, " ")} of ${operation.replaceAll("_", " ")}`.slice(0, 60);

/** A page whose policy lets axe in. */
async function openFor(world, open, how) {
  filled ??= await fill(world, words);
  return open(world.admin, { ...how, bypassCSP: true });
}

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

function looks(dark, size) {
  return async ({ world, open }) => {
    const page = await openFor(world, open, { dark, size });
    const wrong = [];
    const look = async (name) => {
      for (const one of await violations(page)) wrong.push(`${name}: ${one}`);
      if (!(await page.isNarrow())) wrong.push(`${name}: it scrolls sideways`);
    };
    await tour(page, filled, look);
    await page.at(`t/${filled.task}`);
    for (const [key, name] of [["Control+k", "palette"], ["?", "help"], ["c", "create_thread"]]) {
      await page.keyboard.press(key);
      await page.waitForSelector(`dialog[data-dialog=${name}]`);
      await page.settled();
      await look(name);
      await page.keyboard.press("Escape");
      await page.waitForSelector("dialog", { state: "detached" });
    }
    assert.deepEqual(wrong, []);
  };
}

export const tests = {
  "light, wide": looks(false, WIDE),
  "light, on a phone": looks(false, PHONE),
  "dark, wide": looks(true, WIDE),
  "dark, on a phone": looks(true, PHONE),

  "signing in, in both themes": async ({ world, open }) => {
    for (const dark of [false, true]) {
      for (const size of [WIDE, PHONE]) {
        const page = await open(null, { dark, size, bypassCSP: true });
        await page.goto(world.url);
        await page.waitForSelector("[name=token]");
        assert.deepEqual(await violations(page), []);
        assert.ok(await page.isNarrow());
      }
    }
  },

  "while fifty things happen in a second": async ({ world, open }) => {
    const page = await openFor(world, open, {});
    await page.at("board");
    const busy = await world.task(filled.channel, "Changes all the time");
    const stop = noise(world, busy.id, 50);
    const found = [...(await violations(page)), ...(await violations(page))];
    assert.ok(stop() > 10, "it was busy");
    assert.deepEqual(found, []);
  },

  "finger: what is pressed on a phone is large enough": async ({ world, open }) => {
    const page = await openFor(world, open, { size: PHONE, touch: true });
    const small = [];
    await tour(page, filled, async (name) => {
      const found = await page.evaluate((least) => {
        const pressed = [...document.querySelectorAll("button, select, input:not([type=checkbox]), nav a, summary")];
        const isSmall = (node) => {
          const { width, height } = node.getBoundingClientRect();
          // In a line of words a target is as high as the line.
          return node.checkVisibility() && !node.closest("p, .message-head") && !node.matches(".link") && (height < least || width < least);
        };
        return pressed.filter(isSmall).map((node) => `${node.outerHTML.slice(0, 90)} ${JSON.stringify(node.getBoundingClientRect())}`);
      }, FINGER - 0.5);
      for (const one of found) small.push(`${name}: ${one}`);
    });
    assert.deepEqual([...new Set(small)].slice(0, 20), []);
  },

  "phone: one lane, places at the bottom, and the composer in sight": async ({ world, open }) => {
    const page = await openFor(world, open, { size: PHONE, touch: true });
    await page.at("board");
    const lanes = page.locator("[data-lane]").filter({ visible: true });
    assert.equal(await lanes.count(), 1);
    await page.tap("[data-pick=blocked]");
    assert.equal(await lanes.first().getAttribute("data-lane"), "blocked");
    const bar = await page.locator("nav.places").boundingBox();
    assert.ok(bar.y + bar.height > PHONE.height - 2, JSON.stringify(bar));
    await page.at(`t/${filled.task}`);
    await page.locator("textarea[name=body]").focus();
    const field = await page.locator("textarea[name=body]").boundingBox();
    assert.ok(field.y >= 0 && field.y + field.height <= bar.y, JSON.stringify([field, bar]));
  },
};
