// All of it by keyboard: from signing in to closing a task, and where the focus is all the while.

import assert from "node:assert/strict";

/** The focus can be seen; a card has a ring as a whole. After the last stop it is on nothing of the page. */
async function isSeen(page) {
  const seen = await page.evaluate(() => {
    const at = document.activeElement;
    const { outlineStyle, outlineWidth } = getComputedStyle(at.closest(".card:has(.title:focus)") ?? at);
    return at === document.body || (outlineStyle !== "none" && parseFloat(outlineWidth) >= 2);
  });
  assert.ok(seen, await page.evaluate(() => document.activeElement.outerHTML.slice(0, 300)));
}

/** Tabs on until the focus is on what fits, and sees it at every stop. */
async function tabTo(page, selector) {
  for (let stop = 0; stop < 120; stop += 1) {
    await page.keyboard.press("Tab");
    await isSeen(page);
    if (await page.evaluate((selector) => document.activeElement.matches(selector), selector)) return;
  }
  assert.fail(`${selector} is not reached`);
}

const focused = (page) => page.evaluate(() => document.activeElement.closest("[data-thread]")?.dataset.thread ?? null);

export const tests = {
  "a task is made, found, claimed, spoken in and closed": async ({ world, open }) => {
    await world.channel("by keys");
    const page = await open(null);
    await page.goto(`${world.url}board#${world.admin.token}`);
    await page.waitForSelector("[data-screen=sign-in] button");
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-screen=board]");
    await page.live("live");
    await page.keyboard.press("c");
    await page.waitForSelector("dialog [name=title]");
    await page.waitForFunction(() => document.activeElement.name === "title");
    await page.keyboard.type("Is done by keys");
    await tabTo(page, "dialog form [type=submit]");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/t\//);
    const id = /\/t\/([^#?]+)/.exec(page.url())[1];
    await page.waitForSelector("[data-why=free]");
    await page.keyboard.press("g");
    await page.keyboard.press("b");
    await page.waitForSelector("[data-screen=board]");
    await page.inLane(id, "ready");
    await page.keyboard.press("/");
    await page.keyboard.type("by keys");
    await page.waitForURL(/text=by/);
    await page.keyboard.press("Escape");
    assert.equal(await focused(page), id);
    await page.keyboard.press("Space");
    await page.waitForSelector("dialog[data-dialog=peek]");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    assert.equal(await focused(page), id, "the focus is back where it was");
    await page.keyboard.press("Enter");
    await page.waitForSelector(`[data-screen=task][data-thread="${id}"] [data-why]`);
    await page.keyboard.press("i");
    await page.says("[data-panel=claim]", /Held by/);
    await page.keyboard.press("r");
    await page.keyboard.type("c i a j k ? typed, not pressed");
    await page.keyboard.press("Control+Enter");
    await page.says(".timeline", /typed, not pressed/);
    await page.keyboard.press("Escape");
    await tabTo(page, '[data-of="transition_thread close"]');
    await page.keyboard.press("Enter");
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-why=done]");
    await page.keyboard.press("Escape");
    await page.waitForSelector("[data-screen=board]");
  },

  "j, k, h and l go from card to card, and the focus is seen": async ({ world, open }) => {
    const channel = await world.channel("moves");
    const tasks = [];
    for (let at = 0; at < 3; at += 1) tasks.push(await world.task(channel, `Moves ${at}`, { priority: 9 - at }));
    const running = await world.task(channel, "Runs");
    await world.claimed(world.agent, running.id);
    const page = await open(world.admin);
    await page.at("board?channel=moves");
    await page.inLane(running.id, "running");
    await page.inLane(tasks[2].id, "ready");
    await page.keyboard.press("j");
    assert.equal(await focused(page), running.id);
    await isSeen(page);
    await page.keyboard.press("l");
    assert.equal(await focused(page), tasks[0].id);
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    assert.equal(await focused(page), tasks[2].id);
    await page.keyboard.press("k");
    assert.equal(await focused(page), tasks[1].id);
    await page.keyboard.press("h");
    assert.equal(await focused(page), running.id);
  },

  "? tells the keys, single letters can be switched off, and commands work still": async ({ world, open }) => {
    const page = await open(world.admin);
    await page.at("board");
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[data-dialog=help]");
    await page.says("dialog", /Claim/);
    const letters = page.locator("dialog input[type=checkbox]");
    await letters.uncheck();
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.keyboard.press("c");
    await page.keyboard.press("Control+k");
    await page.waitForSelector("dialog[data-dialog=palette]");
    assert.equal(await page.locator("dialog").count(), 1, "the letter has opened nothing");
    await page.keyboard.press("Escape");
    await page.reload();
    await page.live("live");
    await page.click(".top button:has-text('?')");
    assert.equal(await page.locator("dialog input[type=checkbox]").isChecked(), false);
    await page.locator("dialog input[type=checkbox]").check();
  },

  "the palette goes to places, tasks and actions": async ({ world, open }) => {
    const task = await world.task(await world.channel("palette"), "Zanzibar is far");
    const page = await open(world.admin);
    await page.at("board");
    const pick = async (text) => {
      await page.keyboard.press("Control+k");
      await page.fill("dialog[data-dialog=palette] input", text);
      await page.keyboard.press("Enter");
    };
    await pick("zanzibar");
    await page.waitForSelector(`[data-screen=task][data-thread="${task.id}"] [data-why]`);
    await pick("claim");
    await page.says("[data-panel=claim]", /Held by/);
    await pick("go to board");
    await page.waitForSelector("[data-screen=board]");
  },

  "the first stop leads to the content, and every stop of a task is seen": async ({ world, open }) => {
    const task = await world.task(await world.channel("stops"), "Has stops");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
    await isSeen(page);
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    await tabTo(page, "[data-of=claim_thread]");
    await tabTo(page, "textarea[name=body]");
  },
};
