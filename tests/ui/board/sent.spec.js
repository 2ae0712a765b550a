// What is sent of a module means what its source means: only comments are missing.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";

import { lex } from "../lex.js";

const SOURCES = new URL("../../../svc-http/ui/", import.meta.url);

/** A module without its comments, and without the space between what it says. */
const meaning = (source) =>
  lex(source)
    .filter((part) => part.type !== "comment")
    .map((part) => (part.type === "code" ? part.text.replaceAll(/\s+/g, "") : `${part.type} ${part.text}`))
    .join("");

export const tests = {
  "every module that is sent means the same as its source, line by line": async ({ world }) => {
    const page = await (await fetch(`${world.url}board`)).text();
    const folder = new URL(/src="([^"]*)app\.js"/.exec(page)[1], `${world.url}board`);
    const names = readdirSync(SOURCES, { recursive: true }).filter((name) => name.endsWith(".js"));
    const files = names.filter((name) => !["strings/test.js", "push.js"].includes(name));
    assert.ok(files.length > 150);
    for (const name of files) {
      const source = readFileSync(new URL(name, SOURCES), "utf8");
      const answer = await fetch(new URL(name, folder));
      assert.equal(answer.status, 200, name);
      const sent = await answer.text();
      assert.equal(meaning(sent), meaning(source), name);
      assert.equal(sent.split("\n").length, source.split("\n").length, name);
      assert.ok(!/^\s*(\/\/|\/\*)/m.test(sent), `${name} has comments`);
    }
  },
};
