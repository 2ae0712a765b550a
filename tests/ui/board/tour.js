// Every screen of the board, each at the addresses where it has most to show. A screen that is added is on the tour by
// itself; one whose address has a part that is not known here stops it.

import { screens } from "../../../svc-http/ui/screens.js";

/** What stands in the addresses of screens, by what fill.js has made. */
const PARAMS = {
  task: ({ task }) => ({ id: task }),
  channel: ({ channel }) => ({ id: channel }),
  member: ({ member }) => ({ id: member }),
  approval: ({ link }) => ({ link }),
};
/** Further addresses, where a screen shows one thing of many. */
const MORE = {
  dms: ({ dm }) => [`dms?c=${dm}`],
  memory: ({ block }) => [`memory?block=${block}`],
  task: ({ tasks }) => tasks.slice(1).map((id) => `t/${id}`),
};

/** @returns {{id: string, path: string}[]} */
export function placesOf(filled) {
  return screens.flatMap(({ id, path }) => {
    const params = PARAMS[id]?.(filled) ?? {};
    const first = path.replace(/\{(\w+)\}/g, (_, name) => {
      if (params[name] === undefined) throw new Error(`the tour does not know the ${name} of the screen ${id}`);
      return encodeURIComponent(params[name]);
    });
    return [first, ...(MORE[id]?.(filled) ?? [])].map((address) => ({ id, path: address }));
  });
}

/**
 * Opens each screen, and every part of it that has an address, and looks at it.
 *
 * @param {any} page
 * @param {any} filled
 * @param {(name: string) => Promise<void>} look
 */
export async function tour(page, filled, look) {
  for (const { id, path } of placesOf(filled)) {
    await visit(page, id, path, look);
    const parts = await page.evaluate(() => {
      const links = [...document.querySelectorAll("main a[href*='?part=']")];
      return links.filter(({ pathname }) => pathname === location.pathname).map(({ search }) => search);
    });
    for (const part of new Set(parts)) await visit(page, id, path.split("?")[0] + part, look);
  }
}

/** Opens a screen and looks at it. */
export async function visit(page, id, path, look) {
  await page.at(path);
  await page.waitForSelector(`[data-screen="${id}"]`);
  // What is folded up is looked at, too.
  await page.evaluate(() => document.querySelectorAll("main details").forEach((node) => (node.open = true)));
  await page.settled();
  await look(path || "the beginning");
}
