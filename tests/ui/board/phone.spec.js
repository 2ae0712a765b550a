// On a phone: one lane, places at the bottom, and what is pressed is as large as a finger.

import assert from "node:assert/strict";

import { openFor } from "./looks.js";
import { PHONE } from "./page.js";
import { tour } from "./tour.js";

/** A finger is this wide, in pixels. */
const FINGER = 44;

export const tests = {
  "what is pressed on a phone is large enough": async ({ world, open }) => {
    const page = await openFor(world, open, { size: PHONE, touch: true });
    const small = [];
    await tour(page, world.filled, async (name) => {
      const found = await page.evaluate((least) => {
        const pressed = [...document.querySelectorAll("button, select, input:not([type=checkbox]), nav a, summary")];
        const isSmall = (node) => {
          const { width, height } = node.getBoundingClientRect();
          // In a line of words a target is as high as the line.
          return (
            node.checkVisibility() &&
            !node.closest("p, .message-head") &&
            !node.matches(".link") &&
            (height < least || width < least)
          );
        };
        const sizeOf = ({ width, height }) => `${Math.round(width)} x ${Math.round(height)}`;
        return pressed
          .filter(isSmall)
          .map(
            (node) =>
              `${node.tagName}.${node.className} ${node.closest("[data-panel], [data-screen]")?.className}: ${sizeOf(node.getBoundingClientRect())}`,
          );
      }, FINGER - 0.5);
      for (const one of new Set(found)) small.push(`${name.split("/")[0]}: ${one}`);
    });
    assert.deepEqual([...new Set(small)], []);
  },

  "one lane, places at the bottom, and the composer in sight": async ({ world, open }) => {
    const page = await openFor(world, open, { size: PHONE, touch: true });
    await page.at("board");
    const lanes = page.locator("[data-lane]").filter({ visible: true });
    assert.equal(await lanes.count(), 1);
    await page.tap("[data-pick=blocked]");
    assert.equal(await lanes.first().getAttribute("data-lane"), "blocked");
    const bar = await page.locator("nav.places").boundingBox();
    assert.ok(bar.y + bar.height > PHONE.height - 2, JSON.stringify(bar));
    await page.at(`t/${world.filled.task}`);
    await page.locator("textarea[name=body]").focus();
    const field = await page.locator("textarea[name=body]").boundingBox();
    assert.ok(field.y >= 0 && field.y + field.height <= bar.y, JSON.stringify([field, bar]));
    await page.keyboard.type("Still writing");
    for (let at = 0; at < 5; at += 1)
      await world.agent.call("post_message", { thread_id: world.filled.task, body: `Arrives ${at}` });
    await page.says(".timeline", /Arrives 4/);
    const still = await page.locator("textarea[name=body]").boundingBox();
    assert.ok(still.y >= 0 && still.y + still.height <= bar.y, JSON.stringify([still, bar]));
  },
};
