// What is refused stands beside the thing: who or what is in the way, until when, and what one can do; and what became
// of a request whose answer is lost is looked up, and never sent twice.

import assert from "node:assert/strict";

const claim = "[data-panel=claim]";
const problem = (code) => `${claim} [data-problem=${code}]`;
const act = (id) => `${claim} [data-of="${id}"]`;
const footprint = (value) => ({ repo: "acme/core", mode: "exclusive", items: [{ kind: "path", value }] });

/** Opens a task whose page learns nothing any more of what others do. */
async function openDeaf(world, open, who, task) {
  const page = await open(who);
  await page.at(`t/${task.id}`);
  await page.reached(world.admin.lsn);
  // What is still being read would tell it.
  await page.waitForLoadState("networkidle");
  world.proxy.freeze();
  return page;
}

/** How often something has happened to a task. */
async function count(world, task, kind) {
  const { items } = await world.admin.call("list_thread_events", { thread_id: task.id, limit: 500 });
  return items.filter((event) => event.kind === kind).length;
}

/** A task that another claim keeps from being claimed. */
async function overlapping(world, name) {
  const channel = await world.channel(name);
  const held = await world.task(channel, `Holds ${name}`, { footprint: footprint(`src/${name}`) });
  const wanted = await world.task(channel, `Wants ${name}`, { footprint: footprint(`src/${name}/part`) });
  const lease = await world.claimed(world.agent, held.id);
  return { held, wanted, lease };
}

/** Lists, by the screens that show them, and what the service reads for each. */
const LISTS = {
  people: "list_members",
  dms: "list_dms",
  memory: "list_memory_blocks",
  conflicts: "list_slots",
  inbox: "list_inbox",
  board: "list_workspace_threads",
  "admin?part=grants": "list_delegation_grants",
  "": "list_dead_letters",
};

/** Refuses what a page reads with an operation, as the service refuses it to who lacks a capability. */
async function refuse(page, world, operation) {
  const { path } = world.operations.get(operation);
  const pattern = new RegExp(`${path.replace(/\{\w+\}/g, "[^/]+")}(?:\\?.*)?$`);
  const body = { type: "/problems/missing-capability", required_capability: "things:read", detail: "it is needed" };
  await page.route(pattern, (route) =>
    route.fulfill({ status: 403, contentType: "application/problem+json", body: JSON.stringify(body) }),
  );
}

/** Opens the form of an operation, as the palette has it. */
const byPalette = (op) => async (page) => {
  await page.keyboard.press("Control+k");
  await page.fill("dialog[data-dialog=palette] input", op);
  await page.click(`dialog[data-dialog=palette] [data-action="${op}"]`);
};

/** Opens what a button leads to. */
const byButton = (of) => (page) => page.click(`main [data-of="${of}"]`);

/** Opens what is in the menu of what a screen shows. */
const byMenu = (of) => async (page) => {
  await page.getByRole("button", { name: "Actions", exact: true }).click();
  await page.click(`dialog [data-of="${of}"]`);
};

const RULES = { lease_secs: 1_200, acknowledge: true };

/**
 * What is refused to who asks for it in a form: by the refusal, how it comes to that, which returns where the page is
 * opened and what is typed; how the form is opened; and what is said in it.
 */
const IN_FORMS = {
  "spawn-rejected": {
    async arrange({ admin, task, channel }) {
      await admin.call("set_spawn_budget", { max_children: 1 });
      const { id } = await task(await channel("spawn"), "Has one child");
      await admin.call("create_child_thread", { thread_id: id, title: "Is the one" });
      return { path: `t/${id}`, typed: { title: "Is one too many", body: "And was thought about" } };
    },
    begin: byMenu("create_child_thread"),
    says: /spawn budget allows no more: max_children: 1/,
    after: ({ admin }) => admin.call("set_spawn_budget", {}),
  },
  "name-taken": {
    async arrange({ admin }) {
      await admin.call("create_app", { slug: "taken", name: "Is there" });
      return { path: "admin?part=apps", typed: { slug: "taken", name: "Comes later" } };
    },
    begin: byButton("create_app"),
    says: /Another has this name/,
  },
  "handle-taken": {
    arrange: async ({ agent }) => ({ path: "admin?part=members", typed: { handle: agent.handle } }),
    begin: byButton("create_agent"),
    says: /Another has this handle/,
  },
  "dependency-cycle": {
    async arrange({ task, channel }) {
      const at = await channel("cycle");
      const first = await task(at, "Comes first in a cycle");
      const second = await task(at, "Comes second in a cycle", { depends_on: [first.id] });
      return { path: `t/${first.id}`, typed: { depends_on_id: second.id } };
    },
    begin: byMenu("add_thread_dependency"),
    says: /would wait for itself/,
  },
  "not-visible-to-all": {
    async arrange({ task, channel }) {
      const [at, other] = [await channel("to be hidden"), await channel("waits outside")];
      const first = await task(at, "Is waited for");
      await task(other, "Waits", { depends_on: [first.id] });
      return { path: `c/${at}`, typed: { topic: "What only some see", private: "true" } };
    },
    begin: byMenu("update_channel"),
    says: /Not all who would learn of it/,
  },
  "footprint-conflict": {
    async arrange({ admin, agent, task, channel }) {
      const at = await channel("refined");
      const mine = await task(at, "Is mine", { footprint: footprint("refined/mine") });
      const theirs = await task(at, "Is theirs", { footprint: footprint("refined/theirs") });
      await admin.call("claim_thread", { thread_id: mine.id, ...RULES });
      await agent.call("claim_thread", { thread_id: theirs.id, ...RULES });
      return { path: `t/${mine.id}`, typed: { value: "refined/theirs/part" } };
    },
    begin: byMenu("set_thread_footprint"),
    says: /refined\/theirs[^]*worker[^]*Is theirs[^]*until/,
  },
  "claim-not-held": {
    async arrange({ agent, task, channel }) {
      const { id } = await task(await channel("not held"), "Is held by another");
      const { claim_lease_id } = await agent.call("claim_thread", { thread_id: id, ...RULES });
      return { path: `t/${id}`, typed: { claim_lease_id, report_id: "not mine", tokens: "5" } };
    },
    // An owner may release the claim of another, and nobody reports on it.
    begin: byPalette("report_usage"),
    says: /do not hold the claim/,
  },
  "report-taken": {
    async arrange({ admin, task, channel }) {
      const { id } = await task(await channel("reports"), "Is reported on twice");
      const { claim_lease_id } = await admin.call("claim_thread", { thread_id: id, ...RULES });
      const report = { claim_lease_id, report_id: "first" };
      await admin.call("report_usage", { thread_id: id, ...report, tokens: 5 });
      return { path: `t/${id}`, typed: { ...report, tokens: "6" } };
    },
    begin: byPalette("report_usage"),
    says: /report/,
  },
  "wrong-state": {
    async arrange({ channel }) {
      const id = await channel("archived meanwhile");
      return { path: `c/${id}`, typed: { text: "Read this first" }, id };
    },
    begin: byMenu("set_channel_boot"),
    meanwhile: ({ admin }, { id }) => admin.call("archive_channel", { channel_id: id }),
    says: /archived/,
  },
  "not-enabled": {
    arrange: async () => ({ path: "settings", typed: { address: "ada@corp.example" } }),
    begin: byButton("set_delivery_address"),
    says: /SVC_SMTP/,
  },
  must_refetch: {
    arrange: async () => ({ path: "board", typed: { after_id: "9000000" } }),
    begin: byPalette("list_events"),
    says: /\S/,
  },
};

export const tests = {
  "what is refused in a form is said there, and all that was typed is there still": async ({ world, open }) => {
    const page = await open(world.admin);
    for (const [code, { arrange, begin, meanwhile, says, after }] of Object.entries(IN_FORMS)) {
      const made = await arrange(world);
      await page.at(made.path);
      await begin(page);
      await page.waitForSelector("dialog form");
      const field = (name) => page.locator(`dialog form [name=${name}]`);
      const fields = Object.entries(made.typed).map(([name, value]) => [field(name), value]);
      for (const [field, value] of fields) {
        const isChoice = await field.evaluate((node) => node.matches("select"));
        await (isChoice ? field.selectOption(value) : field.fill(value));
      }
      await meanwhile?.(world, made);
      await page.click("dialog form [type=submit]");
      await page.says(`dialog [data-problem=${code}]`, says);
      for (const [field, value] of fields) assert.equal(await field.inputValue(), value, `${code}: ${field}`);
      await after?.(world);
    }
  },

  "legal-hold stands beside the message that stays": async ({ world, open }) => {
    const { admin } = world;
    const task = await world.task(await world.channel("held"), "Has words that are held");
    const said = await admin.call("post_message", { thread_id: task.id, body: "Is evidence" });
    const hold = await admin.call("place_legal_hold", { reason: "A question of law" });
    const page = await open(admin);
    await page.at(`t/${task.id}`);
    const message = `[data-message="${said.id}"]`;
    await page.click(`${message} .message-head button:has-text("⋯")`);
    const withdraw = page.locator('dialog [data-of="delete_message"]');
    await withdraw.click();
    await withdraw.click();
    await page.says(`dialog [data-problem=legal-hold]`, /legal hold is in force/);
    await page.keyboard.press("Escape");
    await page.says(`${message} [data-problem=legal-hold]`, /legal hold is in force/);
    await page.says(message, /Is evidence/);
    await admin.call("release_legal_hold", { hold_id: hold.id });
  },

  "a list that may not be read says what is missing": async ({ world, open }) => {
    for (const [path, operation] of Object.entries(LISTS)) {
      const page = await open(world.admin);
      await refuse(page, world, operation);
      await page.at(path);
      await page.says("main [data-problem=missing-capability]", /things:read/);
      const rest = await page.texts("main p.quiet");
      assert.ok(!rest.some((text) => /^(Reading|Looking)/.test(text)), `${path}: ${rest}`);
    }
  },

  "footprint-conflict says who holds which path until when, and waits until it is free": async ({ world, open }) => {
    const { held, wanted, lease } = await overlapping(world, "waiting");
    const page = await open(world.admin);
    await page.at(`t/${wanted.id}`);
    await page.waitForSelector(`${claim} [data-why=overlap]`);
    await page.click(act("claim_thread"));
    await page.says(problem("footprint-conflict"), /src\/waiting[^]*worker[^]*Holds waiting[^]*until/);
    await page.click("[data-way=wait]");
    await page.says(claim, /told here when it is free/);
    await world.agent.call("release_claim", { thread_id: held.id, claim_lease_id: lease.claim_lease_id });
    await page.says(".heard", /Wants waiting can be claimed now/);
    await page.waitForSelector(`${claim} [data-why=free]`);
  },

  "footprint-conflict: the holder is asked where they work": async ({ world, open }) => {
    const { held, wanted } = await overlapping(world, "asking");
    const page = await open(world.admin);
    await page.at(`t/${wanted.id}`);
    await page.click(act("claim_thread"));
    await page.click("[data-way=ask-holder]");
    await page.waitForURL(new RegExp(`t/${held.id}#say`));
    await page.waitForFunction(() => document.activeElement?.matches("textarea[name=body]"));
    assert.match(await page.inputValue("textarea[name=body]"), /^@worker /);
  },

  "footprint-conflict: what is touched is narrowed there": async ({ world, open }) => {
    const { wanted } = await overlapping(world, "narrow");
    const page = await open(world.admin);
    await page.at(`t/${wanted.id}`);
    await page.click(act("claim_thread"));
    await page.click("[data-way=narrow]");
    await page.waitForSelector("dialog[data-dialog=set_thread_footprint] form");
    assert.equal(await page.inputValue("dialog [name=repo]"), "acme/core");
    await page.keyboard.press("Escape");
    await world.admin.call("set_thread_footprint", { thread_id: wanted.id, ...footprint("docs") });
    await page.waitForSelector(`${claim} [data-why=free]`);
    await page.click(act("claim_thread"));
    await page.says(claim, /Held by/);
    assert.ok(!(await page.has(problem("footprint-conflict"))), "what was refused is gone with the next try");
  },

  "not-claimable: another was quicker": async ({ world, open }) => {
    const task = await world.task(await world.channel("quicker"), "Is wanted by two");
    const page = await openDeaf(world, open, world.admin, task);
    await world.claimed(world.agent, task.id);
    await page.click(act("claim_thread"));
    await page.says(problem("not-claimable"), /held by worker/);
    await page.says(problem("not-claimable"), /Ask the holder/);
    assert.equal(await count(world, task, "ThreadAssignmentChanged"), 1);
  },

  "not-claimable: it waits for another task": async ({ world, open }) => {
    const channel = await world.channel("order");
    const first = await world.task(channel, "Comes first");
    const task = await world.task(channel, "Comes second", { depends_on: [first.id] });
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.says(`${claim} [data-why=dependencies]`, /waits for Comes first/);
    await page.click(act("claim_thread"));
    await page.says(problem("not-claimable"), /waits for/);
    await world.admin.call("transition_thread", { thread_id: first.id, action: "close" });
    await page.waitForSelector(`${claim} [data-why=free]`);
  },

  "a claim that is no longer current is read again": async ({ world, open }) => {
    const task = await world.task(await world.channel("stale"), "Is claimed no more");
    const lease = await world.claimed(world.admin, task.id);
    const page = await openDeaf(world, open, world.admin, task);
    await world.admin.call("release_claim", { thread_id: task.id, claim_lease_id: lease.claim_lease_id });
    await page.click(act("renew_claim"));
    await page.says(`${claim} [data-problem]`, /no longer current|do not hold/);
    await page.click(`${claim} [data-way=read-again]`);
    await page.waitForSelector(`${claim} [data-why=free]`);
  },

  "close-refused says what is missing": async ({ world, open }) => {
    const task = await world.task(await world.channel("closing"), "Has a child");
    await world.admin.call("create_child_thread", { thread_id: task.id, title: "Is not done" });
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.waitForSelector("[data-close-needs=children]");
    await page.click(act("transition_thread close"));
    await page.click(act("transition_thread close"));
    await page.says(problem("close-refused"), /child task is not closed/);
    await page.focus(`${problem("close-refused")} button:text("Dismiss")`);
    await page.keyboard.press("Enter");
    await page.waitForSelector(problem("close-refused"), { state: "detached" });
    await page.waitForSelector("main h1:focus");
  },

  "where there is nothing to see the heading has the focus": async ({ world, open }) => {
    const mine = await world.admin.call("whoami", {});
    const capabilities = mine.capabilities.filter((one) => one !== "workspace:read");
    const { secret } = await world.admin.call("mint_token", { member_id: mine.member_id, capabilities });
    const page = await open({ token: secret });
    await page.at("board");
    for (const path of ["nowhere", "memory"]) {
      await page.evaluate((path) => {
        const link = document.createElement("a");
        link.href = new URL(path, document.querySelector("nav a").href).href;
        document.querySelector("main").append(link);
        link.click();
      }, path);
      await page.waitForURL(world.url + path);
      await page.waitForSelector("main h1:focus");
    }
    await page.says("main [data-problem=missing-capability]", /workspace:read/);
  },

  "wrong-state: it was closed meanwhile": async ({ world, open }) => {
    const task = await world.task(await world.channel("states"), "Is closed by another");
    const page = await openDeaf(world, open, world.admin, task);
    const other = await world.person("closer");
    await other.call("transition_thread", { thread_id: task.id, action: "close" });
    await page.click(act("transition_thread close"));
    await page.click(act("transition_thread close"));
    await page.waitForSelector(problem("wrong-state"));
    await page.click(`${claim} [data-way=read-again]`);
    await page.waitForSelector(`${claim} [data-why=done]`);
  },

  "budget-exhausted leads to the budget": async ({ world, open }) => {
    const task = await world.task(await world.channel("budget"), "Has spent all");
    await world.admin.call("set_thread_budget", { thread_id: task.id, max_tokens: 10 });
    const lease = await world.claimed(world.agent, task.id);
    await world.agent.send("report_usage", {
      thread_id: task.id,
      claim_lease_id: lease.claim_lease_id,
      report_id: "1",
      tokens: 50,
    });
    await world.agent.call("release_claim", { thread_id: task.id, claim_lease_id: lease.claim_lease_id });
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.says(`${claim} [data-why=budget], ${claim} [data-why=dead-letter]`, /budget/);
    await page.click(act("claim_thread"));
    await page.says(`${claim} [data-problem]`, /budget/);
    await page.click(`${claim} [data-way=raise]`);
    await page.fill("dialog [name=max_tokens]", "1000");
    await page.click("dialog form [type=submit]");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.click(act("requeue_dead_letter"));
    await page.waitForSelector(`${claim} [data-why=free]`);
    await page.click(act("claim_thread"));
    await page.says(claim, /Held by/);
  },

  "version-conflict: a form keeps what was typed": async ({ world, open }) => {
    const block = await world.admin.call("create_memory_block", { label: "shared", value: "one" });
    const page = await open(world.admin);
    await page.at("board");
    await page.keyboard.press("Control+k");
    await page.fill("dialog[data-dialog=palette] input", "set_memory_block");
    await page.keyboard.press("Enter");
    await page.fill("dialog [name=block_id]", block.id);
    await page.fill("dialog [name=value]", "what I want it to be");
    await page.fill("dialog [name=expected_version]", String(block.version));
    await world.agent.call("set_memory_block", { block_id: block.id, value: "two", expected_version: block.version });
    await page.click("dialog form [type=submit]");
    await page.waitForSelector("dialog [data-problem=version-conflict]");
    assert.equal(await page.inputValue("dialog [name=value]"), "what I want it to be");
  },

  "a member who is frozen is told that they may only read": async ({ world, open }) => {
    const person = await world.person("frost");
    const task = await world.task(await world.channel("frozen"), "Is not for the frozen");
    const page = await openDeaf(world, open, person, task);
    await world.admin.call("freeze_member", { member_id: person.id, reason: "a test" });
    await page.click(act("claim_thread"));
    await page.says(`${claim} [data-problem]`, /frozen/);
  },

  "an answer that is lost is looked up: it has happened, once": async ({ world, open }) => {
    const task = await world.task(await world.channel("lost"), "Is claimed without an answer");
    const page = await openDeaf(world, open, world.admin, task);
    const cut = world.proxy.cut(/^POST \/threads\/[^/]+\/claim$/);
    await page.click(act("claim_thread"));
    assert.equal((await cut).status, 200);
    await page.says(claim, /Looking it up|done/);
    await page.says(claim, /Claim: done[^]*event \d+/);
    assert.equal(await count(world, task, "ThreadAssignmentChanged"), 1);
  },

  "what a browser has sent twice has happened, once": async ({ world, open }) => {
    const task = await world.task(await world.channel("twice"), "Is claimed by a browser that repeats");
    const page = await openDeaf(world, open, world.admin, task);
    const dropped = world.proxy.drop(/^POST \/threads\/[^/]+\/claim$/);
    const answered = page.waitForResponse(/\/claim$/);
    await page.click(act("claim_thread"));
    assert.equal((await dropped).status, 200);
    assert.equal((await answered).status(), 409);
    await page.says(claim, /Claim: done[^]*event \d+/);
    assert.ok(!(await page.has(problem("not-claimable"))));
    assert.equal(await count(world, task, "ThreadAssignmentChanged"), 1);
  },

  "what was never sent says so, and is sent when one wants it": async ({ world, open }) => {
    const task = await world.task(await world.channel("unsent"), "Is claimed at the second try");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.route(/\/claim$/, (route) => route.abort(), { times: 1 });
    await page.click(act("claim_thread"));
    await page.says(`${claim} [data-problem]`, /not sent/);
    assert.equal(await count(world, task, "ThreadAssignmentChanged"), 0);
    await page.click(`${claim} [data-way=try-again]`);
    await page.says(claim, /Held by/);
    assert.equal(await count(world, task, "ThreadAssignmentChanged"), 1);
  },

  "what was typed into a form and not sent is there again": async ({ world, open }) => {
    const channel = await world.channel("forms");
    const page = await open(world.admin);
    await page.at("board");
    const dialog = "dialog[data-dialog=create_thread]";
    const create = async () => {
      await page.click("main [data-of=create_thread]");
      await page.waitForSelector(`${dialog} form`);
    };
    const leave = async () => {
      await page.keyboard.press("Escape");
      await page.waitForSelector("dialog", { state: "detached" });
    };
    const typed = () => Promise.all(["title", "body"].map((name) => page.inputValue(`${dialog} [name=${name}]`)));
    await create();
    await page.fill(`${dialog} [name=title]`, "Written once");
    await page.fill(`${dialog} [name=body]`, "All that is to be done.");
    await page.mouse.click(3, 3);
    assert.deepEqual(await typed(), ["Written once", "All that is to be done."], "a press beside leaves it");
    await leave();
    await create();
    assert.deepEqual(await typed(), ["Written once", "All that is to be done."]);
    await page.click(`${dialog} [data-anew]`);
    assert.deepEqual(await typed(), ["", ""]);
    await page.fill(`${dialog} [name=title]`, "Written twice");
    await leave();
    await create();
    assert.deepEqual(await typed(), ["Written twice", ""]);
    await page.selectOption(`${dialog} [name=channel_id]`, channel);
    await page.click(`${dialog} form [type=submit]`);
    await page.waitForSelector("[data-screen=task]");
    await page.at("board");
    await create();
    assert.deepEqual(await typed(), ["", ""], "what was sent is no draft");
    await leave();
    await page.keyboard.press("Control+k");
    await page.fill("dialog[data-dialog=palette] input", "confirm_delivery_address");
    await page.keyboard.press("Enter");
    await page.fill("dialog [name=code]", "13371337");
    const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
    assert.ok(!kept.includes("13371337"), kept);
  },

  "a form whose answer is lost says that it is looked up, and is sent when one wants it": async ({ world, open }) => {
    const task = await world.task(await world.channel("lost"), "Is ranked at the second try");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.route(/\/priority$/, (route) => route.abort(), { times: 1 });
    await page.keyboard.press("Control+k");
    await page.fill("dialog[data-dialog=palette] input", "set the priority");
    await page.keyboard.press("Enter");
    await page.fill("dialog [name=priority]", "7");
    await page.click("dialog form [type=submit]");
    await page.says("dialog [role=status]", /Looking it up/);
    await page.waitForSelector("dialog [data-problem]");
    assert.equal(await page.inputValue("dialog [name=priority]"), "7");
    await page.click("dialog form [type=submit]");
    await page.waitForSelector("dialog", { state: "detached" });
    assert.equal((await world.admin.call("get_thread", { thread_id: task.id })).priority, 7);
  },

  "words that are refused are the draft again": async ({ world, open }) => {
    const task = await world.task(await world.channel("refused words"), "Is talked about");
    const page = await open(world.admin);
    await page.at(`t/${task.id}`);
    await page.fill("textarea[name=body]", "x".repeat(100_001));
    await page.keyboard.press("Control+Enter");
    await page.waitForSelector(".composer [data-problem]");
    assert.equal((await page.inputValue("textarea[name=body]")).length, 100_001);
  },
};
