// The first run: from an empty workspace to a task that an agent works on, in three steps.

import assert from "node:assert/strict";

const step = (name) => `[data-step=${name}]`;

export const tests = {
  "three steps, each done in place and ticked when it has happened": async ({ world, open }) => {
    const page = await open(null);
    await page.goto(`${world.url}#${world.admin.token}`);
    await page.waitForSelector("[data-screen=sign-in] button");
    await page.keyboard.press("Enter");
    await page.waitForSelector(step("task"));
    assert.deepEqual(await page.locator("[data-step][data-done]").count(), 1, "the agent of the set-up is there");

    await page.click(`${step("task")} [data-of=create_thread]`);
    assert.equal(await page.inputValue("dialog [name=channel_name]"), "general");
    await page.fill("dialog [name=title]", "Say hello");
    const lost = world.proxy.cut(/^POST \/workspaces\/[^/]+\/channels$/);
    await page.click("dialog form [type=submit]");
    await lost;
    await page.waitForSelector(`${step("task")}[data-done]`);
    const { items: channels } = await world.admin.call("list_channels", {});
    assert.deepEqual(channels.map(({ name }) => name), ["general"], "it is made once, though no answer came");

    await page.fill(`${step("agent")} [name=handle]`, "ada");
    await page.click(`${step("agent")} [data-action=create_agent]`);
    const secret = await page.locator(`${step("agent")} [data-copy=secret]`).innerText();
    assert.match(secret, /^svc_/);
    for (const client of ["claude", "codex", "gemini", "vscode", "cursor", "curl"]) {
      const text = await page.locator(`[data-copy=config-${client}]`).textContent();
      assert.ok(text.includes(secret), client);
    }
    // The address in it is the one that the browser has.
    const { origin } = new URL(world.url);
    assert.ok((await page.locator("[data-copy=config-curl]").textContent()).includes(`${origin}/me`));
    const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
    assert.ok(!kept.includes(secret));

    const ada = world.clientOf(secret);
    const { thread_id, claim_lease_id } = await ada.call("claim_next_workspace_thread", {});
    await page.waitForSelector(`${step("claim")}[data-done]`);
    await page.says(step("claim"), /ada works on Say hello/);
    await ada.call("set_thread_result", { thread_id, claim_lease_id, result: { greeting: "hello" } });
    await page.waitForFunction((step) => !/ada works/.test(document.querySelector(step).innerText), step("claim"));
    assert.ok(await page.has(`${step("claim")}[data-done]`), "the claim has happened, though it is over");
    await page.reload();
    await page.live("live");
    assert.ok(!(await page.content()).includes(secret), "it is shown once");
  },
};
