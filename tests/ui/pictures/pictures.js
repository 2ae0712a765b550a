// The pictures of the README: `node --import ../packages.js pictures.js [folder]`, into tests/pictures without a folder.
//
// Promises: each time the same workspace at the same time of day; each picture has at most 256 colours. Leaves out: what
// a picture shows of the log's hashes, which are others each time.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { launch } from "../board/browser.js";
import { PHONE, newPage } from "../board/page.js";
import { startWorld } from "../board/world.js";
import { createPast, inThePast } from "./clock.js";
import { withPalette } from "./png.js";
import { fillTeam } from "./team.js";

const SIZE = { width: 1200, height: 750 };

/** By name: where it is taken, of what size, and what is waited for. */
const PICTURES = {
  now: { path: () => "", see: "[data-gate]" },
  board: { path: () => "board", see: "[data-lane=ready] [data-thread]" },
  task: { path: ({ cookies }) => `t/${cookies}`, see: "[data-message]" },
  log: { path: () => "log", see: "[data-event]", dark: true },
  phone: { path: () => "", see: "[data-gate]", size: PHONE, touch: true },
};

export const names = Object.keys(PICTURES);

/**
 * Makes them all, in a world where nothing else has been done.
 *
 * @param {any} world
 * @param {(how: any) => Promise<any>} open Opens a page for the world's administrator.
 * @param {string} folder
 */
export async function makePictures(world, open, folder) {
  const past = createPast();
  const filled = await fillTeam(world, past.ago);
  for (const [name, { path, see, size = SIZE, ...how }] of Object.entries(PICTURES)) {
    const page = await open({ before: inThePast, given: past.given(), size, locale: "en-GB", timezoneId: "UTC", ...how });
    await page.at(path(filled));
    await page.waitForSelector(see);
    await page.settled();
    writeFileSync(join(folder, `${name}.png`), withPalette(await page.screenshot()));
    await page.context().close();
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const folder = process.argv[2] ?? fileURLToPath(new URL("../../pictures", import.meta.url));
  mkdirSync(folder, { recursive: true });
  const [browser, world] = [await launch(), await startWorld()];
  try {
    const cookie = await world.session(world.admin.token);
    await makePictures(world, (how) => newPage(browser, world, { cookie, ...how }), folder);
  } finally {
    await browser.close();
    await world.close();
  }
}
