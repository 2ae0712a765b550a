// Markdown is shown as it was meant: programs, diffs, tables and quotes look like what was posted, on a wide screen and
// a phone; nothing that somebody writes keeps a page busy; and nothing of what is withdrawn stays in it.

import assert from "node:assert/strict";

import { PHONE, WIDE } from "./page.js";

const PROGRAM = `def walk(tree):
    for node in tree:
        if node.kind == "leaf":
            yield node
        else:
            yield from walk(node.children)`;
const indented = (text, by) => text.replaceAll(/^(?=.)/gm, by);

const POSTED = `To run **before** the release:

1. Save this as \`walk.py\`:

   \`\`\`python and a note beside it
${indented(PROGRAM, "   ")}
   \`\`\`

2. Then look at [the page](https://en.example/Tree_(graph)).

| Case | Expected | Took |
|:-----|:--------:|-----:|
| a \\| b | ok | 12 ms |
| \`x\` | **not** ok | 9 ms |

- [x] it parses
- [ ] it is fast

<b>no markup</b>
`;

const QUESTION = `> May I drop \`old_users\`?
>
>     DROP TABLE old_users;
>       -- keeps the index
>
> 1. it is empty

Asked again, with the **dump** kept.`;

const DIFF = `--- a/walk.py
+++ b/walk.py
@@ -1,3 +1,3 @@
 def walk(tree):
-    for node in tree:
-        yield node
+    for node in sorted(tree):
 
`;

/** A task with one message. */
async function taskWith(world, name, body, title = "Has a message") {
  const task = await world.task(await world.channel(name), title);
  const { id } = await world.agent.call("post_message", { thread_id: task.id, body });
  return { task, id, at: `[data-message="${id}"]` };
}

/** A message is drawn with its tree. The test keeps none of its nodes. */
const drawn = (page, at, has = "strong") => page.locator(`${at} .marked ${has}`).first().waitFor();

/** Once so many trees have come. @param {number} count */
const treesOf = (page, count) =>
  new Promise((resolve, refuse) => {
    let trees = 0;
    page.on("response", async (response) => {
      if (!response.url().endsWith("/ui/api/markdown")) return;
      if (!response.ok()) return refuse(new Error(`no trees: ${response.status()}`));
      await response.finished();
      trees += response.request().postDataJSON().texts.length;
      if (trees >= count) resolve();
    });
  });

/** Which of these texts a browser has: in its scripts and what they keep, and in its document. */
async function found(page, texts) {
  const probe = await page.context().newCDPSession(page);
  const chunks = [];
  probe.on("HeapProfiler.addHeapSnapshotChunk", ({ chunk }) => chunks.push(chunk));
  await probe.send("HeapProfiler.enable");
  await probe.send("HeapProfiler.collectGarbage");
  await probe.send("HeapProfiler.takeHeapSnapshot", { reportProgress: false });
  await probe.detach();
  const { strings } = JSON.parse(chunks.join(""));
  const content = await page.content();
  return {
    kept: texts.filter((text) => strings.some((one) => one.includes(text))),
    shown: texts.filter((text) => content.includes(text)),
  };
}

/** Texts of 100 kB that are made to be slow, and what stands in each when it is drawn. */
const HOSTILE = {
  marks: `a${"\u0301".repeat(50_000)}`,
  "marks on many letters": `${"a\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308\u0309\u030a"}`.repeat(4_000),
  controls: "\u202e".repeat(33_000),
  "controls between letters": "a\u202e".repeat(25_000),
  "directions that alternate": "aא(".repeat(25_000),
  brackets: "[".repeat(100_000),
  links: "[a](".repeat(25_000),
  images: "![".repeat(50_000),
  quotes: ">".repeat(100_000),
  lists: "- ".repeat(50_000),
  stars: "*a **b ".repeat(14_000),
  ticks: "`a``b```c".repeat(11_000),
  cells: `|a|\n|-|\n${"|x|\n".repeat(24_000)}`,
  "30,000 cells": `${"|".repeat(100)}\n${"|-".repeat(99)}|\n${`${"|".repeat(100)}\n`.repeat(900)}`,
  "a diff": `\`\`\`diff\n${"-\n+\n".repeat(24_000)}\`\`\``,
  lines: "\n".repeat(99_000) + "x",
  "one word": "x".repeat(100_000),
  joiners: "👨\u200d".repeat(14_000),
  jamo: "ᄀ".repeat(33_000),
  mentions: "@admin ".repeat(14_000),
  addresses: "http://a.example/((( ".repeat(4_700),
};
const BYTES = 99_900;
const cut = (text) => Buffer.from(text).subarray(0, BYTES).toString().replace(/\ufffd$/, "");

/** Texts that begin as others and are changed at random, always the same ones. */
function mutated(count) {
  let state = 1;
  const random = (below) => (state = (state * 48_271) % 2_147_483_647) % below;
  const seeds = [POSTED, QUESTION, `\`\`\`diff\n${DIFF}\`\`\``, "# a\n\n***b*** ~~c~~ <d@e.example> @admin\n\n- f\n  - g"];
  const pieces = [..."*_~`[]()<>#>-+.1|\\!\n\t \u202e\u0301", "](", "```", "\n\n", "    ", "| - |", "svc://", "@here", "שלום"];
  return Array.from({ length: count }, (_, at) => {
    let text = seeds[at % seeds.length];
    for (let time = random(12); time >= 0; time -= 1) {
      const [from, piece] = [random(text.length + 1), pieces[random(pieces.length)].repeat(1 + random(3))];
      text = text.slice(0, from) + piece + text.slice(from + random(4));
    }
    return text;
  });
}
const MUTATED = Math.max(100, Math.min(2_000, Number(process.env.SVC_TEST_INPUTS ?? 0) / 100));
/** So many messages of a task are shown at first. */
const SHOWN = 200;

export const tests = {
  "a program in a list, a table and tasks look like what was posted, on a wide screen and a phone": async ({ world, open }) => {
    const { task, at } = await taskWith(world, "posted", POSTED);
    for (const size of [WIDE, PHONE]) {
      const page = await open(world.admin, { size });
      await page.at(`t/${task.id}`);
      await drawn(page, at);
      assert.equal(await page.textContent(`${at} ol > li pre[data-language=python]`), PROGRAM);
      assert.match(await page.textContent(`${at} ol > li .code`), /^python and a note beside it/);
      assert.equal(await page.getAttribute(`${at} a[href*=Tree]`, "href"), "https://en.example/Tree_(graph)");
      const cells = (tag) => page.texts(`${at} table ${tag}`);
      assert.deepEqual(await cells("th"), ["Case", "Expected", "Took"]);
      assert.deepEqual(await cells("td"), ["a | b", "ok", "12 ms", "x", "not ok", "9 ms"]);
      const align = await page.$$eval(`${at} table tr:last-child td`, (all) => all.map((one) => getComputedStyle(one).textAlign));
      assert.deepEqual(align, ["start", "center", "right"]);
      const boxes = await page.$$eval(`${at} li input`, (all) => all.map((one) => [one.disabled, one.checked, one.ariaLabel]));
      assert.deepEqual(boxes, [
        [true, true, "Done"],
        [true, false, "Not done"],
      ]);
      await page.says(at, /<b>no markup<\/b>/);
      assert.ok(await page.isNarrow(), `${size.width} px`);
    }
  },

  "a table that is too wide scrolls sideways by itself, by keys as well": async ({ world, open }) => {
    const wide = (cell) => `|${Array.from({ length: 30 }, (_, at) => `${cell} ${at}`).join("|")}|\n`;
    const body = `${wide("column")}${wide(":-").replace(/ \d+/g, "")}${wide("**cell**")}`;
    const { task, at } = await taskWith(world, "wide table", body);
    const page = await open(world.admin, { size: PHONE });
    await page.at(`t/${task.id}`);
    await drawn(page, at);
    assert.ok(await page.isNarrow());
    const table = page.locator(`${at} .table`);
    assert.ok(await table.evaluate((node) => node.scrollWidth > node.clientWidth));
    await table.focus();
    await page.keyboard.press("ArrowRight");
    await page.waitForFunction((at) => document.querySelector(`${at} .table`).scrollLeft > 0, at);
  },

  "an approval that quotes code looks like what was asked": async ({ world, open }) => {
    const { task, id } = await taskWith(world, "quoted", `Quoted:\n\n> ${QUESTION.replaceAll("\n", "\n> ")}\n\n**so**`);
    const gate = await world.agent.call("request_approval", { thread_id: task.id, question: QUESTION });
    for (const size of [WIDE, PHONE]) {
      const page = await open(world.admin, { size });
      await page.at(`t/${task.id}`);
      for (const at of [`[data-gate="${gate.id}"] .marked > blockquote`, `[data-message="${id}"] blockquote blockquote`]) {
        await page.waitForSelector(at);
        assert.equal(await page.textContent(`${at} pre`), "DROP TABLE old_users;\n  -- keeps the index");
        assert.deepEqual(await page.texts(`${at} ol li`), ["it is empty"]);
      }
      assert.equal(await page.innerText(`[data-gate="${gate.id}"] .marked > p strong`), "dump");
      assert.ok(await page.isNarrow());
    }
  },

  "a diff is shown as one, side by side where there is room": async ({ world, open }) => {
    const { task, at } = await taskWith(world, "diffs", `**Look**\n\n\`\`\`diff\n${DIFF}\`\`\``);
    const lease = await world.claimed(world.agent, task.id);
    const result = { diff: DIFF, head_sha: "a1b2c3" };
    await world.agent.call("set_thread_result", { thread_id: task.id, claim_lease_id: lease.claim_lease_id, result });
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    const result_at = "[data-panel=result]";
    const lines = DIFF.trimEnd().split("\n");
    const isSplit = async (place) => {
      await page.waitForSelector(`${place} [data-diff=split]`);
      const rows = await page.$$eval(`${place} .diff tbody tr`, (all) =>
        all.map((row) => [...row.cells].map(({ textContent }) => textContent)),
      );
      assert.deepEqual(rows, [
        ...lines.slice(0, 3).map((line) => [line]),
        [lines[3], lines[3]],
        [lines[4], lines[6]],
        [lines[5], ""],
        [" ", " "],
      ]);
    };
    await isSplit(at);
    // The window is wide, and the panel is not.
    await page.waitForSelector(`${result_at} [data-diff=unified]`);
    await page.$eval(`${result_at} .diff`, (node) => (node.style.width = "700px"));
    await isSplit(result_at);
    await page.$eval(`${result_at} .diff`, (node) => (node.style.width = ""));
    await page.waitForSelector(`${result_at} [data-diff=unified]`);
    await page.says("[data-panel=result]", /head_sha/);
    assert.doesNotMatch(await page.innerText("[data-panel=result] > .panel-body > pre"), /diff/);
    for (const size of [{ width: 1100, height: 800 }, PHONE]) {
      await page.setViewportSize(size);
      for (const place of [at, result_at]) {
        await page.waitForSelector(`${place} [data-diff=unified]`, { state: "attached" });
        assert.equal(await page.textContent(`${place} .diff pre`), DIFF);
      }
      assert.ok(await page.isNarrow(), `${size.width} px`);
    }
    const kinds = await page.$$eval(`${at} .diff-line`, (all) => all.map(({ dataset }) => dataset.line));
    assert.deepEqual(kinds, ["head", "head", "hunk", "same", "del", "del", "add", "same"]);
  },

  "code is copied as it is, or selected where a page may not copy": async ({ world, open }) => {
    const { task, at } = await taskWith(world, "copied", `\`\`\`sh\n  make\t-j2 \u202e\n\`\`\`\n**x**`);
    const page = await open(world.admin, { permissions: ["clipboard-read", "clipboard-write"] });
    await page.at(`t/${task.id}`);
    const press = `${at} [data-copy=sh]`;
    await page.click(press);
    await page.says(press, /^Copied$/);
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "  make\t-j2 \u202e");
    const lines = Array.from({ length: 300 }, (_, at) => `echo ${at}`).join("\n");
    const body = `\`\`\`sh\n${lines}\n\`\`\``;
    const { id } = await world.agent.call("post_message", { thread_id: task.id, body });
    const long = `[data-message="${id}"] [data-copy=sh]`;
    await page.click(long);
    await page.says(long, /^Copied$/);
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), lines, "also what is folded");
    // All of a text is selected, whatever is shown of it: folded, side by side, with names of what is not seen.
    const diff = `${"-a\n+b\n".repeat(200)}+c\u200b`;
    const other = await world.agent.call("post_message", { thread_id: task.id, body: `\`\`\`diff\n${diff}\n\`\`\`` });
    const ofDiff = `[data-message="${other.id}"] [data-copy=diff]`;
    await page.waitForSelector(ofDiff);
    const clipboard = await page.evaluateHandle(() => navigator.clipboard);
    await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
    for (const [at, text] of [[press, "  make\t-j2 \u202e"], [long, lines], [ofDiff, diff]]) {
      await page.click(at);
      await page.says(at, /^Selected/);
      await page.keyboard.press("Control+C");
      assert.equal(await clipboard.evaluate((clipboard) => clipboard.readText()), text);
    }
    await page.focus(press);
    assert.equal(await page.locator("textarea.heard").count(), 0);
  },

  "a long body is folded, its button keeps the focus, and a tree that comes later as well": async ({ world, open }) => {
    const body = `**first**\n\n${Array.from({ length: 300 }, (_, at) => `line ${at}`).join("\n")}`;
    const { task, at } = await taskWith(world, "folded", body);
    const page = await open(world.admin);
    let go;
    const held = new Promise((resolve) => (go = resolve));
    await page.route("**/ui/api/markdown", async (route) => (await held, route.continue()));
    await page.at(`t/${task.id}`);
    const press = `${at} .marked button[aria-expanded]`;
    await page.says(press, /^Show all 302 lines$/);
    await page.says(at, /\*\*first\*\*[^]*line 30\n/);
    await page.focus(press);
    go();
    await drawn(page, at);
    const state = () => page.evaluate(() => [document.activeElement.ariaExpanded, document.activeElement.innerText]);
    assert.deepEqual(await state(), ["false", "Show all 302 lines"]);
    assert.doesNotMatch(await page.innerText(at), /line 60\n/);
    await page.keyboard.press("Enter");
    await page.says(at, /line 299/);
    assert.deepEqual(await state(), ["true", "Show less"]);
    // What changes beside it leaves it as it is.
    await world.admin.call("add_reaction", { message_id: (await page.getAttribute(at, "data-message")), emoji: "🎉" });
    await page.says(at, /🎉 1/);
    assert.deepEqual(await state(), ["true", "Show less"]);
    await page.keyboard.press("Enter");
    assert.deepEqual(await state(), ["false", "Show all 302 lines"]);
  },

  "a text is plain as long as the service gives no tree, and drawn once it does": async ({ world, open }) => {
    const { task, id, at } = await taskWith(world, "plain", "A **plain** text\nin   two lines");
    const page = await open(world.admin);
    let isDown = true;
    let asked = 0;
    await page.route("**/ui/api/markdown", (route) => ((asked += 1), isDown ? route.abort() : route.continue()));
    await page.at(`t/${task.id}`);
    await page.says(at, /A \*\*plain\*\* text\nin   two lines/);
    await page.evaluate((at) => (document.querySelector(at).isKept = true), at);
    isDown = false;
    await drawn(page, at);
    assert.ok(await page.evaluate((at) => document.querySelector(at).isKept, at), "the message stays");
    const before = asked;
    await world.admin.call("add_reaction", { message_id: id, emoji: "👀" });
    await page.says(at, /👀 1/);
    await page.at("board");
    await page.at(`t/${task.id}`);
    await drawn(page, at);
    assert.equal(asked, before + 1, "a page that is loaded anew asks again, and a reaction does not");
    await world.agent.call("edit_message", { message_id: id, body: "Another *text*" });
    await drawn(page, at, "em");
  },

  "links lead to the board's own screens, to the web in a tab of their own, and nowhere else": async ({ world, open }) => {
    const other = await taskWith(world, "linked", "Is **meant**", "Is linked to");
    const { uri } = await world.admin.call("get_message", { message_id: other.id });
    const foreign = uri.replace(/[0-9a-f]{8}(?=-)/, "00000000");
    const body = `**[own](${uri})** ${uri} [web](https://a.example/x) [js](javascript:x) [foreign](${foreign}) ![image](https://a.example/i.png) @admin @here [ask @admin so](https://a.example/y)`;
    const { task, at } = await taskWith(world, "links", body);
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await drawn(page, at);
    const links = await page.$$eval(`${at} .marked a`, (all) => all.map((one) => [one.innerText, one.getAttribute("href"), one.target, one.rel]));
    const outside = ["_blank", "noopener noreferrer nofollow"];
    const path = `${new URL(world.url).pathname}t/${other.task.id}#m-${other.id}`;
    assert.deepEqual(links, [
      ["own", path, "", ""],
      [uri, path, "", ""],
      ["web", "https://a.example/x", ...outside],
      ["foreign", foreign, ...outside],
      ["image", "https://a.example/i.png", ...outside],
      ["@admin", `${new URL(world.url).pathname}m/${world.admin.id}`, "", ""],
      ["ask @admin so", "https://a.example/y", ...outside],
    ]);
    assert.deepEqual(await page.texts(`${at} .mention:not(a)`), ["@here", "@admin"], "there is no link in a link");
    await page.click(`${at} .marked a:has-text("own")`);
    await page.waitForSelector(`[data-screen=task][data-thread="${other.task.id}"]`);
    await drawn(page, other.at);
  },

  "the composer shows what it will look like, and whom it will not reach": async ({ world, open }) => {
    const { task } = await taskWith(world, "composed", "Begins");
    const page = await open(world.admin);
    const asked = [];
    page.on("request", (request) => request.url().endsWith("/ui/api/markdown") && asked.push(request.postDataJSON().texts));
    await page.at(`t/${task.id}`);
    await page.says("[data-message]", /Begins/);
    asked.length = 0;
    const [field, press, preview] = ["textarea[name=body]", ".composer .row > [aria-expanded]", ".composer .preview"];
    await page.locator(field).pressSequentially("Ask @nobody, *and* @worker");
    const warning = ".composer [role=status]";
    await page.says(warning, /will not reach @nobody:/);
    assert.equal(asked.length, 1, "it is asked once typing rests");
    assert.ok(!(await page.isVisible(preview)));
    await page.click(press);
    await page.says(`${preview} em`, /^and$/);
    assert.equal(await page.getAttribute(press, "aria-expanded"), "true");
    assert.equal(await page.innerText(`${preview} a.mention`), "@worker");
    await page.fill(field, "Only `code @nobody`");
    await page.says(`${preview} code`, /code @nobody/);
    assert.ok(!(await page.isVisible(warning)));
    await page.click(press);
    assert.equal(await page.getAttribute(press, "aria-expanded"), "false");
    assert.ok(!(await page.isVisible(preview)));
    // A session that reaches nobody says nothing of it, shows the text as it is, and sends.
    await page.route("**/ui/api/markdown", (route) => route.abort());
    await page.fill(field, `**Ask**\n${"line\n".repeat(300)}`);
    await page.click(press);
    await page.says(preview, /^\*\*Ask\*\*/);
    await page.says(`${preview} .fold`, /^Show all 301 lines$/);
    // What is unfolded stays so while somebody goes on typing.
    await page.click(`${preview} .fold`);
    await page.locator(field).press("End");
    await page.keyboard.type("the end");
    await page.says(preview, /the end/);
    await page.says(`${preview} .fold`, /^Show less$/);
    const before = asked.length;
    await page.click(press);
    assert.ok(!(await page.isVisible(preview)));
    assert.equal(asked.length, before, "to hide it asks nothing");
    await page.unroute("**/ui/api/markdown");
    await page.fill(field, "  \n\n    first();\n    second();\n \n");
    await page.click(press);
    await page.says(`${preview} pre`, /^first\(\);\nsecond\(\);$/);
    await page.focus(field);
    await page.keyboard.press("Control+Enter");
    await page.says("[data-message] pre", /^first\(\);\nsecond\(\);$/);
    // What was refused is said there, too.
    page.problems.length = 0;
    await page.fill(field, "Ask @nobody again");
    await page.keyboard.press("Control+Enter");
    await page.says(warning, /did not reach @nobody/);
  },

  "nothing of a message that is withdrawn stays in an open page": async ({ world, open }) => {
    const texts = ["withdrawn-4711", "withdrawn-4712"];
    const { task, id, at } = await taskWith(world, "withdrawn", `${texts[0]} is **all**\n\n\`\`\`diff\n+${texts[1]}\n\`\`\``);
    await world.admin.call("relate_message", {
      message_id: (await world.admin.call("post_message", { thread_id: task.id, body: "It says **that**" })).id,
      kind: "cites",
      target_message_id: id,
    });
    const page = await open(world.admin);
    await page.at("board");
    await page.click(`[data-thread="${task.id}"] a.title`);
    await drawn(page, at, ".diff");
    await page.says("[data-relation]", /withdrawn-4711/);
    await page.click(`${at} [data-of=answer]`);
    await page.says(".composer", /withdrawn-4711/);
    assert.deepEqual(await found(page, texts), { kept: texts, shown: texts }, "it can be found while it is there");
    // Nor does what is selected of it, where a page may not copy.
    await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
    await page.click(`${at} [data-copy=diff]`);
    await page.says(`${at} [data-copy=diff]`, /^Selected/);
    await world.agent.call("delete_message", { message_id: id });
    await page.says(at, /Withdrawn/);
    await page.reached(world.agent.lsn);
    await page.waitForFunction(() => !document.body.innerText.includes("withdrawn-47"));
    // Answers that had it are read again.
    await page.waitForLoadState("networkidle");
    assert.deepEqual(await found(page, texts), { kept: [], shown: [] });
  },

  "nor in one that is paused, hidden, or still waits for trees, and what waits is not sent": async ({ world, open }) => {
    const texts = ["withdrawn-4721", "withdrawn-4722"];
    const { task, id, at } = await taskWith(world, "waits for trees", `${texts[0]} is **all**`);
    await world.agent.call("edit_message", { message_id: id, body: `${texts[1]} is **all**` });
    const edited = world.agent.lsn;
    const [paused, hidden] = [await open(world.admin), await open(world.admin)];
    await paused.at(`t/${task.id}`);
    await drawn(paused, at);
    await paused.keyboard.press("p");
    await paused.live("paused");
    await hidden.at("log");
    let isDown = true;
    const asked = [];
    for (const one of [paused, hidden]) {
      await one.route("**/ui/api/markdown", (route) => {
        if (!isDown) asked.push(...route.request().postDataJSON().texts);
        return isDown ? route.fulfill({ status: 503, body: "{}" }) : route.continue();
      });
    }
    const openEvent = (lsn) => hidden.evaluate((lsn) => void (location.hash = `#${lsn}`), lsn);
    const refused = [paused, hidden].map((one) => one.waitForResponse("**/ui/api/markdown"));
    await paused.click(`${at} button:has-text("edited")`);
    await openEvent(edited);
    await Promise.all(refused);
    await paused.says("dialog", /withdrawn-4721/);
    await hidden.says("dialog", /withdrawn-4722/);
    // A page that is hidden has no frames.
    await hidden.evaluate(() => {
      globalThis.frames = requestAnimationFrame;
      globalThis.requestAnimationFrame = () => 0;
      Object.defineProperty(document, "hidden", { value: true, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await world.agent.call("delete_message", { message_id: id });
    for (const one of [paused, hidden]) {
      await one.waitForFunction(() => !document.body.innerText.includes("withdrawn-47"), null, { polling: 50 });
      assert.deepEqual(await found(one, texts), { kept: [], shown: [] });
    }
    assert.equal(await paused.getAttribute("html", "data-live"), "paused");
    isDown = false;
    await hidden.evaluate(() => {
      globalThis.requestAnimationFrame = frames;
      delete document.hidden;
      document.dispatchEvent(new Event("visibilitychange"));
    });
    // What is wanted later is asked for together with all that waits.
    const other = await world.admin.call("post_message", { thread_id: task.id, body: "Is **drawn**" });
    await paused.keyboard.press("Escape");
    await paused.keyboard.press("p");
    await openEvent(world.admin.lsn);
    await drawn(paused, `[data-message="${other.id}"]`);
    await drawn(hidden, "dialog");
    assert.deepEqual(asked, ["Is **drawn**", "Is **drawn**"]);
  },

  "what one decides on is shown as a whole, however long and deep it is, and so are numbers": async ({ world, open }) => {
    const task = await world.task(await world.channel("long question"), "Asks much");
    const question = `May I run this?\n\n\`\`\`sh\n${"echo step\n".repeat(210)}rm -rf /srv/data\n\`\`\``;
    const gate = await world.agent.call("request_approval", { thread_id: task.id, question });
    const lists = Array.from({ length: 15 }, (_, at) => `${"  ".repeat(at)}- x`).join("\n");
    const questions = [
      `${"> ".repeat(31)}rm -rf \`/srv\``,
      `${"123456789. ".repeat(14)}rm -rf /srv`,
      `${"> - ".repeat(15)}rm -rf /srv`,
      `${lists}\n\n${indented("```sh\nrm -rf /srv\n```", " ".repeat(30))}`,
      `${lists}\n\n${indented("|rm -rf|\n|-|\n|/srv|", " ".repeat(30))}`,
      "998. a\n999. b\n1000. rm -rf /srv\n\n> 12345. x",
    ];
    const deep = [];
    for (const question of questions) deep.push(await world.agent.call("request_approval", { thread_id: task.id, question }));
    const page = await open(world.admin);
    for (const path of [`t/${task.id}`, "", "inbox"]) {
      await page.at(path);
      const at = `[data-gate="${gate.id}"]`;
      await page.waitForSelector(`${at} .marked pre`);
      await page.says(at, /rm -rf/);
      assert.equal(await page.locator(`${at} .fold`).count(), 0);
    }
    await page.setViewportSize({ width: 375, height: 740 });
    await page.at(`t/${task.id}`);
    for (const [at, { id }] of deep.entries()) {
      const place = `[data-gate="${id}"] .marked`;
      await page.locator(`${place} :is(ol, ul, blockquote)`).first().waitFor();
      // Of each text, how far it is from both edges; of each number, how far it begins from that of the box.
      const rooms = await page.$eval(place, (marked) => {
        const box = marked.getBoundingClientRect();
        const range = document.createRange();
        const texts = document.createTreeWalker(marked, NodeFilter.SHOW_TEXT);
        const rooms = [];
        while (texts.nextNode()) {
          range.selectNodeContents(texts.currentNode);
          const { left, right } = range.getBoundingClientRect();
          rooms.push(left - box.left, box.right - right);
        }
        for (const list of marked.querySelectorAll("ol")) {
          if (getComputedStyle(list).listStylePosition === "inside") continue;
          const number = document.createElement("span");
          number.textContent = `${list.start + list.children.length - 1}. `;
          list.lastElementChild.append(number);
          rooms.push(list.lastElementChild.getBoundingClientRect().left - number.getBoundingClientRect().width - box.left);
          number.remove();
        }
        return rooms;
      });
      assert.ok(rooms.every((room) => room >= 0), `${at}: ${rooms}`);
    }
    assert.ok(await page.isNarrow());
  },

  "a long line is cut into pieces, whatever it is made of, and so is what is beside a fence": async ({ world, open }) => {
    const long = "aא(".repeat(900);
    const bodies = [
      `${long}\`x\``.repeat(4),
      `# ${`${long}*x*`.repeat(4)}`,
      `${long}\u200b`.repeat(4),
      `|a|\n|-|\n|${`${long}\`x\``.repeat(4)}|`,
      `\`\`\`diff\n+${`${long}\u200b`.repeat(4)}\n\`\`\``,
      `~~~ ${long.repeat(4)}\nx\n~~~`,
      `${long}\n*${long}*\n${long}\n\n- ${long}\n- ${long}`,
    ];
    const folded = `~~~ ${"word ".repeat(4_100)}\nx\n~~~`;
    const task = await world.task(await world.channel("pieces"), "Has long lines");
    const ids = [];
    for (const body of [...bodies, folded])
      ids.push((await world.agent.call("post_message", { thread_id: task.id, body: Buffer.from(body).subarray(0, 100_000).toString() })).id);
    const page = await open(world.admin);
    const all = treesOf(page, ids.length);
    await page.at(`t/${task.id}`);
    await all;
    const [info, lines] = [ids.at(-1), ids.at(-2)];
    const marked = (id) => `[data-message="${id}"] .marked`;
    await page.says(`${marked(info)} .code`, /^word/);
    const length = () => page.$eval(marked(info), (node) => node.textContent.length);
    assert.ok((await length()) < 6_000, `${await length()} characters`);
    for (const id of ids) {
      await page.$eval(marked(id), (node) => node.querySelector(".fold")?.click());
      const most = await page.$$eval(`${marked(id)} :is(p, td, .diff-line, .row)`, (blocks) => {
        const whole = (node) => (node.matches?.(".piece") ? 0 : node.nodeType === 3 ? node.length : [...node.childNodes].reduce((sum, one) => sum + whole(one), 0));
        return Math.max(...blocks.map(whole));
      });
      assert.ok(most <= 11_000 && (id === lines || most <= 8_100), `${ids.indexOf(id)}: ${most}`);
    }
    assert.equal(await page.locator(`${marked(lines)} .piece`).count(), 0);
    assert.ok((await length()) > 20_000);
  },

  "the blocks of a message fold together, and stay what they are under a sign": async ({ world, open }) => {
    const code = "aא".repeat(30_000);
    const text = `**block**\n${"line\n".repeat(150)}`;
    const content = [{ type: "text", text }, { type: "text", text }, { type: "code", language: "x", text: code }];
    const task = await world.task(await world.channel("blocks"), "Has blocks");
    const { id } = await world.agent.call("post_message", { thread_id: task.id, body: "See **it**", content });
    const at = `[data-message="${id}"]`;
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.locator(`${at} .fold`).nth(1).waitFor();
    assert.deepEqual(await page.texts(`${at} .fold`), ["Show all 151 lines", "Show all of it"]);
    const length = () => page.$eval(at, (node) => node.textContent.length);
    assert.ok((await length()) < 6_000, `${await length()} characters`);
    const press = page.locator(`${at} .fold`).nth(1);
    assert.ok(await press.evaluate((node) => document.getElementById(node.getAttribute("aria-controls")).contains(node)));
    await press.focus();
    await page.keyboard.press("Enter");
    assert.equal(await page.textContent(`${at} pre[data-language=x]`), code);
    assert.ok((await page.locator(`${at} .piece`).count()) >= 60);
    await page.$$eval(`${at} .marked`, (all) => all.forEach((node) => (node.isKept = true)));
    await world.admin.call("add_reaction", { message_id: id, emoji: "🎉" });
    await page.says(at, /🎉 1/);
    assert.deepEqual(await page.$$eval(`${at} .marked`, (all) => all.map((node) => node.isKept)), [true, true, true, true]);
    assert.deepEqual(await page.evaluate(() => [document.activeElement.ariaExpanded, document.activeElement.innerText]), ["true", "Show less"]);
  },

  "of many diffs in a body the first are told line by line": async ({ world, open }) => {
    const diff = `\`\`\`diff\n${"+\n".repeat(900)}\`\`\`\n`;
    const { task, at } = await taskWith(world, "many diffs", `**x**\n\n${diff.repeat(20)}`);
    const page = await open(world.admin, { size: PHONE });
    await page.at(`t/${task.id}`);
    await drawn(page, at);
    await page.click(`${at} .fold`);
    assert.equal(await page.locator(`${at} .diff`).count(), 3);
    assert.equal(await page.locator(`${at} .diff-line`).count(), 2_000);
    assert.equal((await page.$$eval(`${at} .code pre`, (all) => all.at(-1).textContent)).length, 900 * 2 - 1);
  },

  "words in a table stay whole, and nothing makes a phone's page scroll sideways": async ({ world, open }) => {
    const table = "| Case | Expected result | Observed | Owner |\n|-|-|-|-|\n| authentication | redirect to provider | internal server error | @worker |";
    const task = await world.task(await world.channel("sideways"), "Is narrow");
    const long = ["ᄀ".repeat(3_000), "👨\u200d".repeat(1_400), `|a|\n|-|\n|${"x".repeat(3_000)}|`, "ᄀ".repeat(80)];
    for (const body of [...long, `**t**\n\n${table}`]) await world.agent.call("post_message", { thread_id: task.id, body });
    const page = await open(world.admin, { size: PHONE });
    await page.at(`t/${task.id}`);
    await page.waitForSelector(".marked strong");
    assert.ok(await page.isNarrow());
    const lines = await page.$$eval("table td", (all) =>
      all.slice(-4).map((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size;
      }),
    );
    const words = ["authentication", "redirect to provider", "internal server error", "@worker"].map((text) => text.split(" ").length);
    assert.ok(lines.every((count, at) => count <= words[at]), `${lines}`);
  },

  "marks are counted across emphasis, and rules and tasks stand where they belong": async ({ world, open }) => {
    const marks = "\u0301".repeat(6);
    const body = `a*${marks}***${marks}**${marks} **so**\n\n---\n\n- [ ] loose\n\n- [x] task`;
    const { task, at } = await taskWith(world, "small things", body);
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await drawn(page, at, "hr");
    const said = await page.textContent(`${at} .marked > p`);
    assert.equal(said.split("\u0301").length - 1, 8, said);
    const width = (of) => page.$eval(`${at} ${of}`, (node) => node.getBoundingClientRect().width);
    assert.ok((await width("hr")) > 300);
    const tops = await page.$$eval(`${at} .to-do`, (all) =>
      all.map((item) => [item.querySelector("input"), item.querySelector("p")].map((node) => node.getBoundingClientRect())),
    );
    for (const [box, text] of tops) assert.ok(box.top < text.bottom && text.top < box.bottom && box.right <= text.left);
  },

  "what one member saw is nowhere once another has signed in": async ({ world, open }) => {
    const text = "private-4713";
    const { id: channel } = await world.admin.call("create_channel", { name: "private texts", private: true });
    const task = await world.task(channel, "Is private");
    await world.admin.call("post_message", { thread_id: task.id, body: `${text} is **private**` });
    const page = await open(world.admin);
    await page.goto(`${world.url}t/${task.id}`);
    await drawn(page, ".timeline");
    await page.click("[data-place=board]");
    await page.locator("main [data-screen=board]").waitFor();
    assert.deepEqual((await found(page, [text])).kept, [text], "and while the session lasts");
    const beside = await page.context().newPage();
    await beside.goto(`${world.url}#${world.agent.token}`);
    await beside.click("button[data-action=create_session]");
    await page.says(".account summary", new RegExp(`^${world.agent.handle}$`));
    await beside.close();
    // Its timers end first.
    let left;
    do left = await found(page, [text]);
    while (left.kept.length > 0);
    assert.deepEqual(left, { kept: [], shown: [] });
  },

  "hostile messages of 100 kB are drawn, each in few nodes": async ({ world, open }) => {
    const task = await world.task(await world.channel("hostile texts"), "Has hostile messages");
    const names = new Map();
    for (const [name, text] of Object.entries(HOSTILE)) {
      const { id } = await world.agent.call("post_message", { thread_id: task.id, body: cut(text) });
      names.set(id, name);
    }
    const page = await open(world.admin);
    const all = treesOf(page, names.size);
    await page.at(`t/${task.id}`);
    await all;
    // All of them stand on the page at once, unfolded.
    const counts = await page.evaluate(async (ids) => {
      const counts = ids.map((id) => {
        const body = document.querySelector(`[data-message="${id}"] .marked`);
        body.querySelector(".fold").click();
        return body.querySelectorAll("*").length;
      });
      await new Promise((laidOut) => requestAnimationFrame(() => requestAnimationFrame(laidOut)));
      return counts;
    }, [...names.keys()]);
    for (const [at, name] of [...names.values()].entries()) assert.ok(counts[at] < 15_000, `${name}: ${counts[at]} elements`);
  },

  "texts that were changed at random are drawn without an error": async ({ world, open }) => {
    const channel = await world.channel("changed");
    const texts = mutated(MUTATED).filter((text) => text.trim());
    for (let from = 0; from < texts.length; from += SHOWN) {
      const task = await world.task(channel, "Has many messages");
      const part = texts.slice(from, from + SHOWN);
      for (const body of part) await world.agent.call("post_message", { thread_id: task.id, body });
      const page = await open(world.admin);
      const all = treesOf(page, part.length);
      await page.at(`t/${task.id}`);
      await all;
      await page.waitForSelector("[data-message] .marked strong");
      assert.ok(await page.isNarrow());
    }
  },
};
