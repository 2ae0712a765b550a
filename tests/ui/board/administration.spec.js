// Administration, the audit and settings.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

/** Sends the form that is open. */
async function send(page, fields = {}) {
  for (const [name, value] of Object.entries(fields)) await page.fill(`dialog form [name=${name}]`, value);
  await page.click("dialog form [type=submit]");
}

/** The secret that is shown now, which then is nowhere. */
async function secretOf(page) {
  const secret = await page.locator("dialog [data-copy=secret]").innerText();
  await page.click("dialog button.primary");
  await page.waitForSelector("dialog", { state: "detached" });
  assert.ok(!(await page.content()).includes(secret));
  return secret;
}

/** Presses twice what cannot be undone. */
async function pressTwice(button) {
  await button.click();
  await button.click();
}

/** What is administered: a part of the screen each, and what is done there. */
const PARTS = {
  async tokens(page, world) {
    await page.at("admin?part=tokens");
    await page.click("main [data-of=mint_token]");
    await send(page, { label: "is rotated" });
    const first = await secretOf(page);
    await page.click("main [data-of=attenuate_token]");
    await page.check("dialog form [value='workspace:read']");
    await send(page, { token: first, label: "is narrower" });
    const narrow = await secretOf(page);
    assert.deepEqual((await world.clientOf(narrow).call("whoami")).capabilities, ["workspace:read"]);
    const row = page.locator("[data-token]", { hasText: "is rotated" });
    await pressTwice(row.locator("[data-of=rotate_token]"));
    const second = await secretOf(page);
    await world.clientOf(first).refused("whoami", {}, "unauthenticated");
    await world.clientOf(second).call("whoami");
    await pressTwice(row.locator("[data-of=revoke_token]"));
    await row.getByText("Revoked").waitFor();
    await world.clientOf(second).refused("whoami", {}, "unauthenticated");
  },
  async grants(page, world) {
    await page.at("admin?part=grants");
    await page.click("main [data-of=create_delegation_grant]");
    await page.check("dialog form [value='workspace:read']");
    const { admin, agent } = world;
    await send(page, { subject: admin.handle, delegate: agent.handle, purpose: "Stands in", expires_in_secs: "900" });
    const row = page.locator("[data-grant]", { hasText: "Stands in" });
    await pressTwice(row.locator("[data-of=revoke_delegation_grant]"));
    await row.getByText("Revoked").waitFor();
  },
  async retention(page) {
    await page.at("admin?part=retention");
    await page.click("main [data-of=set_retention_policy]");
    await send(page, { messages_days: "365" });
    await page.says("[data-field=messages_days]", /365 days/);
  },
  async holds(page) {
    await page.at("admin?part=holds");
    await page.click("main [data-of=place_legal_hold]");
    await send(page, { reason: "Until it is settled" });
    const row = page.locator("[data-hold]", { hasText: "Until it is settled" });
    await pressTwice(row.locator("[data-of=release_legal_hold]"));
    await row.getByText("Released", { exact: true }).first().waitFor();
  },
  async spawn(page) {
    await page.at("admin?part=spawn");
    await page.click("main [data-of=set_spawn_budget]");
    await send(page, { max_children: "7" });
    await page.says("main dl", /7/);
  },
  async export(page, world) {
    await page.at("admin?part=export");
    const coming = page.waitForEvent("download");
    await page.click("main a[data-action=export_workspace]");
    const text = readFileSync(await (await coming).path(), "utf8");
    const { type, signature } = JSON.parse(text);
    assert.ok(type === "svc.workspace.export/1" && signature && text.includes(world.workspaceId));
  },
};

export const tests = {
  "each part of the administration does what it is for": async ({ world, open }) => {
    const page = await open(world.admin);
    for (const walk of Object.values(PARTS)) await walk(page, world);
    await page.at("audit");
    await page.says("main", /export_workspace/);
  },

  "settings: what is set is there, and what cannot be says why": async ({ world, open }) => {
    const person = await world.person("settler");
    // As a service has it that has no key for web push.
    const path = world.operations.get("get_notification_preferences").path.replace(/\{\w+\}/, "[^/]+");
    const noPush = { public_key: null, subscriptions: [] };
    const withoutKey = (text) => JSON.stringify({ ...JSON.parse(text), web_push: noPush });
    const isBack = world.proxy.edit(new RegExp(`^GET ${path}`), withoutKey);
    const page = await open(person);
    await page.at("settings");
    await page.check("main [name=theme][value=dark]");
    await page.check("main [name=density][value=compact]");
    await page.waitForSelector("html[data-theme=dark][data-density=compact]");
    await page.uncheck("main [name=letters]");
    await page.click("main [data-of=update_me]");
    await send(page, { display_name: "Settled at last" });
    await page.says("main dl", /Settled at last/);
    await page.says("main [data-push]", /SVC_VAPID_PRIVATE_KEY is not set/);
    const notify = page.locator("main [data-of=register_web_push]");
    assert.equal(await notify.getAttribute("aria-disabled"), "true");
    assert.match(await notify.getAttribute("title"), /SVC_VAPID_PRIVATE_KEY/);
    await page.uncheck("main [name='mention.mail']");
    await page.check("main [name=quiet_hours]");
    await page.fill("main [name=start]", "21:30");
    await page.says("main", /Not saved yet/);
    await page.click("main [data-of=set_notification_preferences]");
    await page.waitForFunction(() => {
      const told = [...document.querySelectorAll("main [role=status]")];
      return !told.some((node) => node.checkVisibility());
    });
    const kept = await person.call("get_notification_preferences", { member_id: person.id });
    assert.equal(kept.quiet_hours.start, "21:30");
    assert.equal(kept.rules.find(({ reason }) => reason === "mention").mail, false);
    await page.reload();
    await page.live("live");
    await page.waitForSelector("html[data-theme=dark][data-density=compact]");
    assert.equal(await page.inputValue("main [name=start]"), "21:30");
    await page.locator("main h1").click();
    await page.keyboard.press("c");
    await page.keyboard.press("Control+k");
    await page.waitForSelector("dialog[data-dialog=palette]");
    assert.equal(await page.locator("dialog").count(), 1, "a letter is no key any more");
    isBack();
  },

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
