// Runs the browser tests: `node --import ../packages.js runner.js board task/review` runs board.spec.js, and of
// task.spec.js the tests with "review" in their names.
//
// A file of tests exports `tests`, by their names, and may say in `world` what it is run in. All tests of a file have
// one world, one after the other, and each has browsers of its own. Printed is what failed; the exit code is 1 if
// anything did.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { launch } from "./browser.js";
import { newPage } from "./page.js";
import { startWorld } from "./world.js";

// Only a test that hangs takes so long, also on a busy machine.
const TIMEOUT = 300_000 + 1000 * Number(process.env.SVC_TEST_WAIT_SECS ?? 0);
const pictures = mkdtempSync(join(tmpdir(), "svc-board-failed-"));
const browser = await launch();

/** Runs one test with browsers of its own; what they have reported is a failure, too. */
async function run(test, world) {
  const pages = [];
  const open = async (who, how = {}) => {
    const cookie = who === null ? undefined : await world.session(who.token);
    const page = await newPage(browser, world, { cookie, ...how });
    pages.push(page);
    return page;
  };
  let timer;
  const late = new Promise((_, fail) => (timer = setTimeout(() => fail(new Error("it takes too long")), TIMEOUT)));
  try {
    await Promise.race([test({ world, open, browser }), late]);
    const problems = pages.flatMap((page) => page.problems);
    if (problems.length > 0) throw new Error(problems.join("\n"));
    if (world.proxy.elsewhere.length > 0) throw new Error(`asked elsewhere: ${world.proxy.elsewhere}`);
    return null;
  } catch (error) {
    return `${error.stack}\n${(await Promise.all(pages.map(seen))).join("\n")}`;
  } finally {
    clearTimeout(timer);
    for (const page of pages) await page.context().close();
  }
}

let count = 0;

/** What is on a page: for whoever looks into a failure. */
async function seen(page) {
  const path = join(pictures, `${(count += 1)}.png`);
  try {
    await page.screenshot({ path, timeout: 5_000 });
    const live = await page.evaluate(() => ({ ...document.documentElement.dataset }));
    return `${page.url()} ${JSON.stringify(live)} ${path}\n${[...page.problems, ...page.told].join("\n")}`;
  } catch (error) {
    return `${page.url()}: ${error.message}`;
  }
}

let [passed, failed] = [0, 0];

/** @param {string} what */
async function runFile(what) {
  const [name, only] = what.split("/");
  const { tests, world: how } = await import(`./${name}.spec.js`);
  const world = await startWorld(how);
  try {
    for (const [title, test] of Object.entries(tests)) {
      if (only && !title.includes(only)) continue;
      const begun = performance.now();
      const problem = await run(test, world);
      const took = `${Math.round(performance.now() - begun)} ms`;
      if (problem) failed += 1;
      else passed += 1;
      console.log(`${problem ? "FAILED" : "ok"}: ${name}: ${title} (${took})${problem ? `\n${problem}` : ""}`);
    }
  } finally {
    await world.close();
  }
}

try {
  for (const name of process.argv.slice(2)) await runFile(name);
} finally {
  await browser.close();
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
