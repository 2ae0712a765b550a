// Behind a real nginx, and the service is told nothing of it: whoever opens the board reads what its operator has to set.

import assert from "node:assert/strict";

import { UNSET } from "./front.js";

export const world = {
  fronts: [
    { name: "nginx", path: "/tools/svc", host: UNSET },
    { name: "nginx", host: "svc.internal" },
  ],
};

const addressOf = (world) => world.url.replace(/\/ui\/$/, "");
const toSet = (address) => new RegExp(`SVC_PUBLIC_URL to ${address.replaceAll(".", "\\.")}(?![^.])`);

export const tests = {
  "a token signs nobody in, and the page says which variable to set, and to what": async ({ world, open }) => {
    const page = await open(null);
    await page.goto(world.url);
    await page.fill("[name=token]", world.admin.token);
    await page.keyboard.press("Enter");
    await page.says("[role=alert]", toSet(addressOf(world)));
    assert.deepEqual(await page.context().cookies(), []);
  },

  "whom the identity provider has signed in reads why nothing is live": async ({ world, open }) => {
    const page = await open(null);
    await page.route(/\/auth\/oidc\/login/, (route) =>
      route.continue({ url: `${route.request().url()}&sub=ida&name=ida` }),
    );
    await page.goto(`${world.url}board`);
    await page.click(".sign-in a.button");
    await page.waitForSelector("[data-screen=board]");
    await page.live("offline");
    await page.says(".strip", toSet(addressOf(world)));
    assert.equal(page.url(), `${world.url}board`);
  },

  "under a name that the service does not know there is a page that says so": async ({ world, open }) => {
    const page = await open(null);
    const answer = await page.goto(world.boards[1]);
    assert.equal(answer.status(), 403);
    await page.says("main", /SVC_PUBLIC_URL[^]*SVC_ALLOWED_HOSTS/);
  },
};
