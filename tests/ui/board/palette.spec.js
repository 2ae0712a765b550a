// Everything that the service does for people can be done on the board: each operation that is JSON is an action, or a
// form in the palette, made of its schema.

import assert from "node:assert/strict";

import { actions } from "../../../svc-http/ui/actions.js";

const palette = "dialog[data-dialog=palette]";

/** Opens the palette and narrows it to an operation. */
async function find(page, name) {
  await page.keyboard.press("Control+k");
  await page.fill(`${palette} input`, name);
}

/** Opens an operation's form. */
async function form(page, name) {
  await find(page, name);
  await page.click(`${palette} [data-action="${name}"]`);
  await page.waitForSelector(`dialog[data-dialog="${name}"] form`);
}

export const tests = {
  "every operation of the contract is in the palette": async ({ world, open }) => {
    const page = await open(world.admin);
    await page.at("board");
    await find(page, "");
    const missing = await page.evaluate(
      ([names, palette]) => {
        const input = document.querySelector(`${palette} input`);
        return names.filter((name) => {
          input.value = name;
          input.dispatchEvent(new Event("input"));
          return !document.querySelector(`${palette} [data-action="${name}"]`);
        });
      },
      [[...world.operations.keys()], palette],
    );
    assert.deepEqual(missing, []);
    assert.ok(world.operations.size > 190);
  },

  "every action is of an operation that there is": async ({ world }) => {
    const unknown = actions.filter(({ op }) => !world.operations.has(op)).map(({ op }) => op);
    // Signing out is none of the API's operations.
    assert.deepEqual(unknown, []);
  },

  "every form opens and has a field for each thing that the operation takes": async ({ world, open }) => {
    const page = await open(world.admin);
    await page.at("board");
    const document = await (await fetch(`http://${world.servers[0].address}/openapi.json`)).json();
    const wrong = [];
    for (const { name, method, path } of world.operations.values()) {
      if (world.operations.get(name).capability.includes("global")) continue;
      await find(page, name);
      await page.click(`${palette} [data-action="${name}"]`);
      await page.waitForSelector(`dialog[data-dialog="${name}"] form`);
      const fields = await page.evaluate(() =>
        [...document.querySelectorAll("dialog form [name], dialog form [data-field]")].map(
          (node) => node.dataset.field ?? node.name,
        ),
      );
      const described = document.paths[path][method.toLowerCase()];
      const body = described.requestBody?.content["application/json"]?.schema ?? {};
      const taken = [
        ...(described.parameters ?? []).map((one) => resolved(document, one).name),
        ...Object.keys(resolved(document, body).properties ?? {}),
      ];
      const lacking = taken.filter((one) => !["workspace_id", "detail"].includes(one) && !fields.includes(one));
      if (lacking.length) wrong.push(`${name}: ${lacking}`);
      await page.keyboard.press("Escape");
      await page.waitForSelector("dialog", { state: "detached" });
    }
    assert.deepEqual(wrong, []);
  },

  "what a form has sent is answered with what came of it, and with its event": async ({ world, open }) => {
    const page = await open(world.admin);
    await page.at("board");
    await find(page, "create_channel");
    await page.click(`${palette} [data-action=create_channel]`);
    await page.fill("dialog [name=name]", "made by a form");
    await page.click("dialog form [type=submit]");
    await page.says("dialog [data-answer=create_channel]", /made by a form/);
    const { items } = await world.admin.call("list_channels", {});
    const made = items.find(({ name }) => name === "made by a form");
    const log = (await world.admin.call("list_events", { after_id: 0, limit: 500 })).items;
    await page.says("dialog [data-receipt]", /^event \d+$/);
    const lsn = Number(await page.getAttribute("dialog [data-receipt]", "data-receipt"));
    const { payload } = log.find((event) => event.lsn === lsn);
    assert.equal(payload.$chain?.channel_id, made.id, "it is an event of the channel");
    await page.waitForSelector(`dialog [data-receipt] a[href$="log#${lsn}"]`);
  },

  "what a form has sent and no answer came to is looked up in the log": async ({ world, open }) => {
    const page = await open(world.admin);
    await page.at("board");
    await find(page, "create_channel");
    await page.click(`${palette} [data-action=create_channel]`);
    await page.fill("dialog [name=name]", "made unheard");
    const lost = world.proxy.cut(/^POST \/workspaces\/[^/]+\/channels$/);
    await page.click("dialog form [type=submit]");
    await lost;
    await page.says("dialog [role=status]", /nobody has said whether it happened/);
    await page.says("dialog [data-answer=create_channel]", /answer was lost/);
    await page.says("dialog [data-receipt]", /^event \d+$/);
    const { items } = await world.admin.call("list_channels", {});
    assert.equal(items.filter(({ name }) => name === "made unheard").length, 1);
  },

  "what leaves no event has no receipt, whatever others do meanwhile": async ({ world, open }) => {
    const task = await world.task(await world.channel("follows"), "Is followed");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await find(page, "follow");
    await page.click(`${palette} [data-action=follow]`);
    await page.fill("dialog[data-dialog=follow] [name=target_id]", task.id);
    await world.agent.call("post_message", { thread_id: task.id, body: "Said by another" });
    await page.reached(world.agent.lsn);
    await page.click("dialog form [type=submit]");
    await page.waitForSelector("dialog [data-answer=follow]");
    await page.waitForSelector("dialog [data-receipt=none]", { state: "attached" });
    assert.doesNotMatch(await page.locator("dialog").innerText(), /event \d/);
  },

  "what cannot be undone takes a second press, as its button does": async ({ world, open }) => {
    const task = await world.task(await world.channel("twice"), "Is closed by a command");
    const stateOf = async () => (await world.admin.call("get_thread", { thread_id: task.id })).state;
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.waitForSelector("[data-why]");
    await page.emulateMedia({ forcedColors: "active" });
    await find(page, "close");
    const rows = page.locator(`${palette} [role=option]`);
    const ground = (at) => rows.nth(at).evaluate((node) => getComputedStyle(node).backgroundColor);
    assert.notEqual(await ground(0), await ground(1), "the chosen row is seen whatever the colours are");
    await page.emulateMedia({ forcedColors: "none" });
    await page.keyboard.press("Enter");
    await page.says(`${palette} [aria-selected=true]`, /Close: press again/);
    assert.equal(await stateOf(), "open");
    await page.fill(`${palette} input`, "clos");
    await page.says(`${palette} [aria-selected=true]`, /^Close\b(?!: press)/);
    await page.keyboard.press("Enter");
    await page.says(`${palette} [aria-selected=true]`, /Close: press again/);
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-why=done]");
    assert.equal(await stateOf(), "closed");
  },

  "Enter takes what is called as one types, whatever the task at hand is called": async ({ world, open }) => {
    const task = await world.task(await world.channel("called"), "To be closed by whoever claims it");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await find(page, "close");
    assert.match(await page.locator(`${palette} [aria-selected=true]`).innerText(), /^Close\b/);
    await page.says(`${palette} [role=option]:last-child`, /To be closed/);
  },

  "a form acts on the task that it was opened at, however many are called so": async ({ world, open }) => {
    const channel = await world.channel("one-name");
    const [other, task] = [await world.task(channel, "Update the docs"), await world.task(channel, "Update the docs")];
    await world.task(channel, "Another name");
    const page = await open(world.admin);
    await page.at("board?channel=one-name");
    await page.inLane(other.id, "ready");
    await form(page, "post_message");
    await page.fill("dialog [name=thread_id]", "Update the docs");
    await page.fill("dialog [name=body]", "Begun at the board");
    await page.click("dialog form [type=submit]");
    await page.says("dialog .field .problem:not([hidden])", /Several are called so/);
    await page.fill("dialog [name=thread_id]", "another nam");
    await page.click("dialog form [type=submit]");
    await page.says("dialog .field .problem:not([hidden])", /nothing of that name/);
    await page.fill("dialog [name=thread_id]", "another name");
    await page.keyboard.press("Escape");

    await page.click(`[data-thread="${task.id}"] a.title`);
    await page.waitForSelector("[data-why]");
    await form(page, "post_message");
    assert.equal(await page.inputValue("dialog [name=body]"), "", "what was begun elsewhere is no draft of this task");
    await page.keyboard.press("Escape");
    await form(page, "transition_thread");
    assert.match(await page.inputValue("dialog [name=thread_id]"), /^Update the docs \(#one-name, \w{6}\)$/);
    await page.selectOption("dialog [name=action]", "close");
    await page.click("dialog form [type=submit]");
    await page.waitForSelector("dialog [data-answer=transition_thread]");
    const stateOf = async ({ id }) => (await world.admin.call("get_thread", { thread_id: id })).state;
    assert.deepEqual([await stateOf(other), await stateOf(task)], ["open", "closed"]);
  },

  "a new task says what its footprint meets, or why that is not known; numbers are decimal": async ({
    world,
    open,
  }) => {
    await world.channel("footprints");
    const page = await open(world.admin);
    await page.at("board");
    await page.keyboard.press("c");
    await page.click("dialog summary");
    await page.click("dialog [data-field=footprint] [data-field=items] button");
    assert.equal(await page.locator("dialog [data-field=items] select").inputValue(), "path");
    await page.fill("dialog [data-field=items] input", "../outside");
    await page.waitForSelector("dialog [data-unchecked]");
    await page.fill("dialog [name=priority]", "0x10");
    await page.click("dialog form [type=submit]");
    await page.says("dialog .field .problem:not([hidden])", /no whole number/);
  },

  "the palette opens on a layout of other letters": async ({ world, open }) => {
    const page = await open(world.admin);
    await page.at("board");
    const press = { key: "л", code: "KeyK", ctrlKey: true, bubbles: true, cancelable: true };
    await page.evaluate((press) => document.dispatchEvent(new KeyboardEvent("keydown", press)), press);
    await page.waitForSelector(palette);
  },

  "a channel that is not there offers nothing, and a setting counts where nothing can be stored": async ({
    world,
    open,
  }) => {
    const page = await open(world.admin);
    await page.at(`c/${world.agent.id}`);
    await page.says("main [role=status]", /no such channel|not there|cannot be seen/i);
    assert.deepEqual(await page.texts("main button:visible"), []);
    await page.evaluate(() => (Storage.prototype.setItem = () => JSON.parse("it is full")));
    await page.keyboard.press("g");
    await page.keyboard.press("s");
    await page.check("main input[name=theme][value=dark]");
    await page.waitForSelector("html[data-theme=dark]");
  },

  "what a session may not do is there, and says what it lacks": async ({ world, open }) => {
    const page = await open(world.agent);
    await page.at("board");
    await find(page, "pause_repo");
    const row = page.locator(`${palette} [data-action=pause_repo]`);
    assert.equal(await row.getAttribute("aria-disabled"), "true");
    assert.match(await row.innerText(), /token:admin/);
    await page.keyboard.press("Enter");
    await page.waitForSelector(palette);
  },
};

function resolved(document, schema) {
  if (!schema.$ref) return schema;
  return resolved(
    document,
    schema.$ref
      .split("/")
      .slice(1)
      .reduce((at, part) => at[part], document),
  );
}
