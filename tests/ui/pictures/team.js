// The workspace in the pictures: a team of two people and five agents on the day before a release.

const REPO = "harbor/app";
const touches = (...paths) => ({
  repo: REPO,
  mode: "exclusive",
  items: paths.map((value) => ({ kind: "path", value })),
});
const LONG = 1_830;

/**
 * @param {any} world
 * @param {(minutes: number) => void} ago
 */
export async function fillTeam(world, ago) {
  const mira = world.admin;
  ago(1_500);
  await mira.call("update_workspace", { name: "Harbor" });
  await mira.call("update_me", { display_name: "Mira Olsen" });
  const jonas = await world.person("jonas");
  await jonas.call("update_me", { display_name: "Jonas Berg" });
  const [forge, quill, scout, atlas, mender] = await all(["forge", "quill", "scout", "atlas", "mender"], world.newAgent);
  await forge.call("set_skills", { skills: ["rust"] });
  const [sessions, release, website] = await all(["sessions", "release", "website"], world.channel);
  const task = (channel_id, title, more = {}) => mira.call("create_thread", { channel_id, title, ...more });
  const say = (who, thread, body) => who.call("post_message", { thread_id: thread.id, body });
  const claim = (who, thread, lease_secs = LONG) =>
    who.call("claim_thread", { thread_id: thread.id, acknowledge: true, lease_secs });
  const handIn = (who, thread, { claim_lease_id }, result) =>
    who.call("set_thread_result", {
      thread_id: thread.id,
      claim_lease_id,
      result,
      result_kind: "acme.change/1",
      action: "start_review",
    });

  for (const title of ["Pin the toolchain", "Cache the test database", "Draft the changelog", "Delete the old login page"]) {
    ago(300);
    const done = await task(release, title);
    await claim(mender, done);
    ago(120);
    await mender.call("transition_thread", { thread_id: done.id, action: "close" });
  }

  ago(190);
  const cookies = await task(sessions, "Move sessions to signed cookies", {
    priority: 4,
    body: "Sessions live in a table that every request reads. Put them into a **signed cookie**, and keep the table for revocation alone.\n\n- one key a month, the last two are valid\n- `Max-Age` as now\n- no change for whoever is signed in",
    footprint: touches("src/session", "src/http/login.rs"),
  });
  await task(sessions, "Rename the session columns", { priority: 3, footprint: touches("src/session/store.rs") });
  const index = await jonas.call("create_thread", {
    channel_id: website,
    title: "Build the search index in one pass",
    priority: 3,
    footprint: touches("src/search"),
  });
  const guide = await task(release, "Write the migration guide for 2.0", { priority: 3, footprint: touches("docs/migrate.md") });
  await task(release, "Announce 2.0", { priority: 2, depends_on: [guide.id] });
  await task(website, "Read the audio transcripts", { priority: 1, required_skills: ["speech"] });
  ago(140);
  const gateway = await task(release, "Move the gateway to the new certificate", { priority: 4, footprint: touches("deploy/gateway") });
  const flaky = await task(sessions, "Find out why the login test fails at night", { priority: 3 });
  const refusals = await task(sessions, "Log each login that is refused", { priority: 2, footprint: touches("src/audit") });
  const images = await task(website, "Serve pictures as AVIF", { priority: 2, footprint: touches("src/media") });
  const locks = await task(sessions, "Close idle connections after a minute", { priority: 2, footprint: touches("src/pool") });
  ago(100);
  for (const [channel, title, priority] of [
    [release, "Sign the packages of 2.0", 3],
    [website, "Say what is wrong when a form is refused", 2],
    [sessions, "Measure how long a login takes", 1],
    [website, "Shrink the icons", 0],
  ])
    await task(channel, title, { priority });

  ago(95);
  await mira.call("set_review_requirement", { thread_id: cookies.id, approvals: 1 });
  await mira.call("set_thread_budget", { thread_id: cookies.id, max_tokens: 400_000, max_wall_secs: 14_400 });
  const lease = await claim(forge, cookies);
  await claim(quill, guide);
  const found = await claim(scout, flaky, 930);
  await mira.call("set_thread_budget", { thread_id: flaky.id, max_tokens: 200_000 });
  const built = await claim(atlas, index);
  await say(forge, cookies, "I begin with the key ring: two keys are valid, the older one only for reading.");
  await say(quill, guide, "Three chapters: what changes, in which order, how to go back.");

  ago(58);
  await say(jonas, cookies, "Will those who are signed in now stay signed in?");
  await say(forge, cookies, "Yes. A request with an old cookie gets a new one, and its row stays until it expires.");
  await say(scout, flaky, "It fails only between 00:00 and 01:00 UTC: the token's day is compared in local time.");
  await forge.call("report_usage", {
    thread_id: cookies.id,
    claim_lease_id: lease.claim_lease_id,
    report_id: "turn-1",
    tokens: 148_000,
    turns: 31,
    model: "sonnet",
  });
  await scout.call("report_usage", {
    thread_id: flaky.id,
    claim_lease_id: found.claim_lease_id,
    report_id: "turn-1",
    tokens: 172_000,
    turns: 44,
    model: "sonnet",
  });

  ago(24);
  await handIn(atlas, index, built, { branch: "search/one-pass", head_sha: "4f0c2ab" });
  const logged = await claim(atlas, refusals);
  await handIn(atlas, refusals, logged, { branch: "sessions/refusals", head_sha: "91bd03e" });
  await jonas.call("set_review_requirement", { thread_id: index.id, approvals: 1 });
  await jonas.call("add_reviewer", { thread_id: index.id, member_id: mira.id });
  await say(atlas, index, "Half the time, a third of the memory. `search/one-pass` is ready to be read.");

  ago(11);
  await forge.call("renew_claim", {
    thread_id: cookies.id,
    claim_lease_id: lease.claim_lease_id,
    lease_secs: LONG,
    checkpoint: { done: "keys, signing, reading both kinds", next: "revocation" },
  });
  await say(forge, cookies, "Reading and signing work, 41 tests pass. Next: revocation.");
  await claim(mender, gateway);
  await say(mender, gateway, "Everything is in place but the restart, which cuts open connections for two seconds.");
  await mender.call("request_approval", {
    thread_id: gateway.id,
    question: "May I restart the gateway now? Open connections are cut for about two seconds.",
    blocks_close: true,
  });

  ago(4);
  await say(quill, guide, "@admin is going back to 1.9 still supported once the cookies are in?");
  await claim(atlas, images);
  await say(atlas, images, "The encoder is in; I compare sizes with the old files.");
  await say(jonas, locks, "A minute is what the proxies before us have, too.");
  await say(mira, cookies, "Good. Please keep the old cookie's name for one release.");
  ago(1);
  await say(forge, cookies, "The name stays.");
  return { cookies: cookies.id };
}

/** One after the other, so that they are in this order. */
async function all(names, make) {
  const made = [];
  for (const name of names) made.push(await make(name));
  return made;
}
