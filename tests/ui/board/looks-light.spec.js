// Every screen in the light theme, wide and on a phone.

import assert from "node:assert/strict";

import { looks, violations } from "./looks.js";
import { PHONE, WIDE } from "./page.js";

export const tests = {
  "light, wide": looks(false, WIDE),
  "light, on a phone": looks(false, PHONE),

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
};
