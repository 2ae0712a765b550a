// What the board costs a browser, beside the least that does the same: `node --import ../packages.js board.js`.
//
// Printed is one line of JSON with a part for each of these; `--only` takes one of them alone.
// `paint`: milliseconds until the first card is on the screen, beside a static page with the same cards, style and
//    weight, which a bare server of Node sends compressed. No cache, a browser of its own for each load, in alternation.
// `messages`: milliseconds until a task with 100 messages in Markdown is drawn as it was written.
// `busy`: milliseconds of processor time of the page's main thread for each event, with 50 events a second in a workspace
//    of 10,000 tasks, beside a list that sets the text of one row for each event over the same socket; and how many of
//    its tasks took over 50 ms.
// `memory`: heap and nodes after 100,000 events, beside those after 5,000.

import { parseArgs } from "node:util";

import { launch } from "../board/browser.js";
import { newPage } from "../board/page.js";
import { openList, serveStatic } from "./floor.js";
import { startBusyWorld, titleOf } from "./world.js";

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    pairs: { type: "string", default: "5" },
    tasks: { type: "string", default: "10000" },
    seconds: { type: "string", default: "20" },
    events: { type: "string", default: "100000" },
    base: { type: "string", default: "5000" },
  },
});
const [pairs, tasks, seconds, events, base] = ["pairs", "tasks", "seconds", "events", "base"].map((name) => {
  const number = Number(values[name]);
  if (!Number.isInteger(number) || number < 1) throw new Error(`--${name} takes a whole number from 1`);
  return number;
});
const PER_SECOND = 50;
/** As many as a team has open: what is on a first screen. */
const TASKS_AT_FIRST = 100;
/** So many events are sent before the page has to have followed: it is never so far behind that it reads anew. */
const AHEAD = 1_000;
/** How many messages are on the page of a task. */
const MESSAGES = 100;
/** The page looks every 30 s for what it can forget. */
const SWEPT_AFTER = 35_000;

const browser = await launch();
const busy = await startBusyWorld();
const { world } = busy;
const cookie = await world.session(world.admin.token);

/** A page in a browser of its own, and what measures it. */
async function open(how = {}) {
  const page = await newPage(browser, world, { cookie, ...how });
  const probe = await page.context().newCDPSession(page);
  // Time of the processor, not of the clock: others use the machine, too.
  await probe.send("Performance.enable", { timeDomain: "threadTicks" });
  const metrics = async () => {
    const { metrics } = await probe.send("Performance.getMetrics");
    return Object.fromEntries(metrics.map(({ name, value }) => [name, value]));
  };
  return { page, probe, metrics, close: () => page.context().close() };
}

/** Runs in the page before its scripts: when the first card was on the screen. */
function watchFirstCard() {
  const look = () => {
    if (!document.querySelector("[data-thread]")) return requestAnimationFrame(look);
    requestAnimationFrame(() => (globalThis.firstCard = performance.now()));
  };
  requestAnimationFrame(look);
}

/** Loads an address, and returns when it first painted, when the first card was there, and what it took to get there. */
async function load(url) {
  const { page, close } = await open({ before: watchFirstCard });
  await page.goto(url);
  const found = await page.waitForFunction(() => {
    const paint = performance.getEntriesByName("first-contentful-paint")[0];
    if (!globalThis.firstCard || !paint) return null;
    const files = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
    const before = files.filter(({ name, startTime }) => startTime < globalThis.firstCard && /\/ui\/|:\d+\/$/.test(name));
    const kb = before.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0) / 1_000;
    return { paint: paint.startTime, card: globalThis.firstCard, kb, files: before.length };
  });
  const measured = await found.jsonValue();
  await close();
  return measured;
}

/** The board as it stands, as one page without scripts that run. */
async function frozen() {
  const { page, close } = await open();
  const texts = { css: [], js: [] };
  const files = [];
  page.on("response", (response) => files.push(response));
  await page.at("board");
  await page.waitForSelector("[data-thread]");
  for (const response of files) {
    const kind = /\.(css|js)$/.exec(new URL(response.url()).pathname)?.[1];
    if (kind) texts[kind].push(await response.text());
  }
  const html = await page.evaluate(() => document.body.outerHTML);
  await close();
  return serveStatic({ html, css: texts.css.join("\n"), js: texts.js.join("\n") });
}

async function paint() {
  await busy.fillTo(TASKS_AT_FIRST);
  const floor = await frozen();
  const loads = [];
  for (let round = 0; round <= pairs; round += 1) {
    const pair = [await load(`${world.url}board`), await load(floor.url)];
    console.error(`load ${round}: ours ${rounded(pair[0].card)} ms, floor ${rounded(pair[1].card)} ms`);
    if (round > 0) loads.push(pair);
  }
  floor.close();
  const of = (side, what) => median(loads.map((pair) => pair[side][what]));
  const ratio = (what) => rounded(median(loads.map(([ours, theirs]) => ours[what] / theirs[what])));
  return {
    ratio: ratio("card"),
    wanted: 3,
    ms: rounded(of(0, "card")),
    floor_ms: rounded(of(1, "card")),
    kb: rounded(of(0, "kb")),
    floor_kb: rounded(floor.bytes / 1_000),
    files: of(0, "files"),
    paint_ratio: ratio("paint"),
    paint_ms: rounded(of(0, "paint")),
    paint_floor_ms: rounded(of(1, "paint")),
  };
}

/** Runs in the page before its scripts: when all messages were on the screen with their emphasis. @param {number} count */
function watchMessages(count) {
  const look = () => {
    if (document.querySelectorAll("[data-message] .marked strong").length < count) return requestAnimationFrame(look);
    requestAnimationFrame(() => (globalThis.allDrawn = performance.now()));
  };
  requestAnimationFrame(look);
}

async function messages() {
  const url = `${world.url}t/${await busy.talk(MESSAGES)}`;
  const times = [];
  for (let round = 0; round <= pairs; round += 1) {
    const { page, close } = await open({ before: watchMessages, given: MESSAGES });
    await page.goto(url);
    const drawn = await page.waitForFunction(() => globalThis.allDrawn);
    const time = await drawn.jsonValue();
    console.error(`messages ${round}: ${rounded(time)} ms`);
    if (round > 0) times.push(time);
    await close();
  }
  return { ms: rounded(median(times)) };
}

/** Runs in the page: counts what keeps it from drawing for long. */
function countLong() {
  globalThis.long = [];
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) globalThis.long.push(duration);
  }).observe({ type: "longtask" });
}

/** Acts steadily while a page follows, and returns what each event took it. */
async function follow({ page, metrics }) {
  await page.evaluate(countLong);
  const [from, before] = [await busy.head(), await metrics()];
  await busy.steadily(PER_SECOND, seconds);
  const to = await busy.head();
  await page.reached(to);
  const after = await metrics();
  const long = await page.evaluate(() => globalThis.long);
  return { ms: ((after.TaskDuration - before.TaskDuration) * 1_000) / (to - from), long };
}

/** Runs in the page: whether so many tasks stand in the lanes. */
function isWhole(tasks) {
  const firsts = [...document.querySelectorAll("[data-lane] .slot:first-child")];
  return firsts.reduce((sum, node) => sum + Number(node.getAttribute("aria-setsize")), 0) >= tasks;
}

/** The board, when it has read all tasks. */
async function openBoard() {
  const opened = await open();
  await opened.page.at("board");
  await opened.page.waitForFunction(isWhole, tasks, { timeout: 120_000 });
  await opened.page.reached(await busy.head());
  return opened;
}

async function busyTime() {
  await busy.fillTo(tasks);
  const found = [];
  for (let round = 0; round < pairs; round += 1) {
    const board = await openBoard();
    const ours = await follow(board);
    await board.close();
    const list = await open({ bypassCSP: true });
    await openList(list.page, world, Array.from({ length: tasks }, (_, at) => titleOf(at)));
    const theirs = await follow(list);
    await list.close();
    console.error(`pair ${round + 1}: ours ${rounded(ours.ms)} ms an event, floor ${rounded(theirs.ms)} ms`);
    found.push([ours, theirs]);
  }
  return {
    ratio: rounded(median(found.map(([ours, theirs]) => ours.ms / theirs.ms))),
    wanted: 3,
    ms_an_event: rounded(median(found.map(([ours]) => ours.ms))),
    floor_ms_an_event: rounded(median(found.map(([, theirs]) => theirs.ms))),
    events: pairs * seconds * PER_SECOND,
    over_50_ms: found.flatMap(([{ long }]) => long).length,
    longest_ms: Math.max(0, ...found.flatMap(([{ long }]) => long)),
    floor_over_50_ms: found.flatMap(([, { long }]) => long).length,
  };
}

async function memory() {
  await busy.fillTo(tasks);
  const { page, probe, metrics, close } = await openBoard();
  const begun = await busy.head();
  async function after(count) {
    for (let head = begun; head < begun + count; ) {
      await busy.quickly(Math.min(AHEAD, Math.max(1, begun + count - head)));
      head = await busy.head();
      await page.reached(head);
    }
    await page.waitForTimeout(SWEPT_AFTER);
    await probe.send("HeapProfiler.collectGarbage");
    await probe.send("HeapProfiler.collectGarbage");
    const { JSHeapUsedSize, Nodes } = await metrics();
    return { heap: JSHeapUsedSize / 1e6, nodes: Nodes };
  }
  const early = await after(base);
  const late = await after(events);
  await close();
  return {
    ratio: rounded(late.heap / early.heap),
    nodes_ratio: rounded(late.nodes / early.nodes),
    wanted: 1.2,
    events,
    heap_mb: rounded(late.heap),
    floor_heap_mb: rounded(early.heap),
    nodes: late.nodes,
    floor_nodes: early.nodes,
  };
}

function median(numbers) {
  return numbers.toSorted((one, other) => one - other)[numbers.length >> 1];
}

function rounded(number) {
  return Math.round(number * 1_000) / 1_000;
}

const parts = { paint, messages, busy: busyTime, memory };
try {
  const wanted = Object.entries(parts).filter(([name]) => [name, undefined].includes(values.only));
  if (wanted.length === 0) throw new Error(`--only takes one of ${Object.keys(parts).join(", ")}`);
  const measured = {};
  for (const [name, run] of wanted) measured[name] = await run();
  console.log(JSON.stringify(measured));
} finally {
  await browser.close();
  await world.close();
}
