// The pictures of the README are there, are small, and are still made by the script that made them.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { makePictures, names } from "../pictures/pictures.js";
import { sizeOf } from "../pictures/png.js";

const PICTURES = new URL("../../pictures/", import.meta.url);
const README = new URL("../../../README.md", import.meta.url);
const BYTES_MOST = 80_000;

export const tests = {
  "each picture is in the README, and as large as it is made now": async ({ world, open }) => {
    const files = names.map((name) => `${name}.png`);
    assert.deepEqual(readdirSync(PICTURES).sort(), files.toSorted());
    const linked = [...readFileSync(README, "utf8").matchAll(/!\[[^\]]+\]\(tests\/pictures\/([^)]+)\)/g)];
    assert.deepEqual(linked.map(([, file]) => file).sort(), files.toSorted());
    const folder = mkdtempSync(join(tmpdir(), "svc-pictures-"));
    try {
      await makePictures(world, (how) => open(world.admin, how), folder);
      for (const file of files) {
        const [kept, made] = [readFileSync(new URL(file, PICTURES)), readFileSync(join(folder, file))];
        assert.deepEqual(sizeOf(made), sizeOf(kept), file);
        for (const { length } of [kept, made]) assert.ok(length < BYTES_MOST, `${file}: ${length} bytes`);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
};
