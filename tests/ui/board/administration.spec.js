// Administration, the audit and settings.

import assert from "node:assert/strict";

export const tests = {
  "a token is minted, shown once, and revoked": async ({ world, open }) => {
    const page = await open(world.admin);
    await page.at(`admin?part=tokens&member=${world.agent.id}`);
    await page.click("[data-of=mint_token]");
    await page.fill("dialog [name=label]", "of a test");
    await page.click("dialog form [type=submit]");
    const secret = await page.locator("dialog [data-copy=secret]").innerText();
    assert.match(secret, /^svc_/);
    await page.keyboard.press("Escape");
    await page.locator("dialog button.primary").click();
    await page.waitForSelector("dialog", { state: "detached" });
    assert.ok(!(await page.content()).includes(secret));
    const client = world.clientOf(secret);
    await client.call("whoami", {});
    const row = page.locator("[data-token]", { hasText: "of a test" });
    await row.locator("[data-of=revoke_token]").click();
    await row.locator("[data-of=revoke_token]").click();
    // The row stays under the pointer until who is at it wants to go on.
    await row.getByText("Revoked").waitFor();
    await page.click(".news");
    await row.waitFor({ state: "detached" });
    await client.refused("whoami", {}, "unauthenticated");
  },

  "a control whose capability is missing is there, disabled, and names it": async ({ world, open }) => {
    const page = await open(world.agent);
    await page.at("admin?part=tokens");
    const mint = page.locator("[data-of=mint_token]");
    assert.equal(await mint.getAttribute("aria-disabled"), "true");
    assert.match(await mint.getAttribute("title"), /token:admin/);
    await mint.click({ force: true });
    assert.equal(await page.locator("dialog").count(), 0);
    await page.says("main", /token:admin/);
  },

  "a hold keeps what is held, and is released": async ({ world, open }) => {
    const page = await open(world.admin);
    await page.at("admin?part=holds");
    await page.click("[data-of=place_legal_hold]");
    await page.fill("dialog [name=reason]", "A question of law");
    await page.click("dialog form [type=submit]");
    await page.says("[data-hold]", /A question of law/);
    await page.at("audit");
    await page.says("main", /legal_hold\.place/);
  },

  "themes and density are kept, and another tab follows": async ({ world, open }) => {
    const page = await open(world.admin);
    await page.at("settings");
    await page.check("main [name=theme][value=dark]");
    await page.waitForSelector("html[data-theme=dark]");
    const other = await page.context().newPage();
    await other.goto(`${world.url}board`);
    await other.waitForSelector("html[data-theme=dark]");
    await page.check("main [name=density][value=compact]");
    await other.waitForSelector("html[data-density=compact]");
    await page.check("main [name=theme][value=system]");
    await other.waitForSelector("html:not([data-theme])");
  },
};
