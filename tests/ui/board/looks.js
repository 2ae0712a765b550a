// What each screen is checked for: by the rules of WCAG 2.2 A and AA as axe-core has them, and that it does not scroll
// sideways.
//
// Leaves out: in which theme, and how wide.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { fill } from "./fill.js";
import { tour } from "./tour.js";

const axe = readFileSync(createRequire(`${process.env.SVC_TEST_UI}/tests.js`).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

/** What axe finds wrong. */
export async function violations(page) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe);
  return page.evaluate(async (rules) => {
    const { violations } = await globalThis.axe.run(document, { runOnly: rules, resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => {
      const where = nodes
        .slice(0, 3)
        .map(({ target, any, all, none }) => `${target.join(" ")} (${[...any, ...all, ...none][0]?.message ?? ""})`);
      return `${id}, ${nodes.length} times: ${where.join("; ")}`;
    });
  }, RULES);
}

const words = (operation, field) => `${field.replace(/\W/g, " ")} of ${operation.replaceAll("_", " ")}`.slice(0, 60);

/** A page whose policy lets axe in, in a world with one of everything. */
export async function openFor(world, open, how) {
  world.filled ??= await fill(world, words);
  return open(world.admin, { ...how, bypassCSP: true });
}

/** @param {boolean} dark @param {{width: number, height: number}} size */
export function looks(dark, size) {
  return async ({ world, open }) => {
    const page = await openFor(world, open, { dark, size });
    const wrong = [];
    const look = async (name) => {
      for (const one of await violations(page)) wrong.push(`${name}: ${one}`);
      if (!(await page.isNarrow())) wrong.push(`${name}: it scrolls sideways`);
    };
    await tour(page, world.filled, look);
    await page.at(`t/${world.filled.task}`);
    for (const [key, name] of [
      ["Control+k", "palette"],
      ["?", "help"],
      ["c", "create_thread"],
    ]) {
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
