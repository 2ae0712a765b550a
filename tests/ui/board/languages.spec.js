// Another language: every word of the board is one of its sentences, and nothing is cut off where words are longer.

import assert from "node:assert/strict";

import { fill } from "./fill.js";
import { PHONE, WIDE } from "./page.js";
import { speakPseudo } from "./pseudo.js";
import { tour } from "./tour.js";

/** Words that are no sentence of the board: names and paths that the tests give, and what stands for itself. */
const NAMES =
  /\b(admin|worker|helper|frozen|paula|corp|example|acme|core|web|paused|src|one|two|staging|app|hidden|rust|cobol|svc|Ctrl|Esc|Escape|Enter|Space|Shift|JSON|true|false|follow)\b/g;
/** What Intl says of times. */
const TIMES =
  /\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|AM|PM|ago|now|secs?|seconds?|mins?|minutes?|hrs?|hours?|days?|weeks?|months?|years?|yesterday|tomorrow|today|last|next|this|and|byte|bytes|USD)\b/g;

/** What a page says in no language of the tests, and what of it is cut off. */
function heard([names, times]) {
  const english = new Set();
  const cut = new Set();
  const strip = (text) =>
    text
      .replace(
        /https?:\S+|\b[a-z]+:[a-z-]+\b|\b\w+(?:[_.]\w+)+\b|\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b|\b[0-9a-f-]{8,}\b|\S+@\S+/g,
        " ",
      )
      .replace(new RegExp(names, "g"), " ")
      .replace(new RegExp(times, "g"), " ");
  const isEnglish = (text) => /[A-Za-z]{3,}/.test(strip(text).replace(/[\p{L}]*[^\p{ASCII}][\p{L}]*/gu, " "));
  const where = (node) =>
    `${(node.closest("[data-panel],[data-part],dialog,nav,header") ?? document.body).tagName} ${node.outerHTML.slice(0, 120)}`;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    // Words of others are apart, and so is what the service's schema says.
    if (!parent.checkVisibility() || parent.closest("bdi, [dir=auto], time, code, pre, .mono, .hint, noscript"))
      continue;
    if (isEnglish(node.data)) english.add(`${node.data.trim().slice(0, 80)} | ${where(parent)}`);
    const { overflowX } = getComputedStyle(parent);
    const isCut = overflowX !== "visible" && overflowX !== "auto" && parent.scrollWidth > parent.clientWidth + 1;
    if (isCut && !parent.closest(".card, .one-line, .heard")) cut.add(where(parent));
  }
  for (const node of document.querySelectorAll("[aria-label], [title], [placeholder], [aria-description]")) {
    if (!node.checkVisibility() || node.closest("bdi, time")) continue;
    for (const name of ["aria-label", "title", "placeholder", "aria-description"]) {
      if (isEnglish(node.getAttribute(name) ?? ""))
        english.add(`${name}: ${node.getAttribute(name).slice(0, 90)} | ${node.tagName}.${node.className}`);
    }
  }
  for (const node of document.querySelectorAll("button, h1, h2, h3, label, legend, summary, .chip, nav a")) {
    if (!node.checkVisibility() || node.closest(".one-line, .heard")) continue;
    if (node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflowX !== "visible") cut.add(where(node));
  }
  return { english: [...english], cut: [...cut] };
}

let count = 0;
const words = () => `λέξη ${(count += 1)}`;

function speaks(size) {
  return async ({ world, open }) => {
    world.filled ??= await fill(world, words);
    const page = await open(world.admin, { size });
    await speakPseudo(page);
    const found = { english: [], cut: [], wide: [] };
    const look = async (name) => {
      const { english, cut } = await page.evaluate(heard, [NAMES.source, TIMES.source]);
      for (const one of english) found.english.push(`${name}: ${one}`);
      for (const one of cut) found.cut.push(`${name}: ${one}`);
      if (!(await page.isNarrow())) found.wide.push(name);
    };
    await tour(page, world.filled, look);
    await page.says("h1", /[éâ]/);
    assert.deepEqual(found, { english: [], cut: [], wide: [] });
  };
}

export const tests = {
  wide: speaks(WIDE),
  "on a phone": speaks(PHONE),

  "signing in": async ({ world, open }) => {
    const page = await open(null);
    await speakPseudo(page);
    await page.goto(world.url);
    await page.waitForSelector("[name=token]");
    const { english, cut } = await page.evaluate(heard, [NAMES.source, TIMES.source]);
    assert.deepEqual({ english, cut }, { english: [], cut: [] });
  },
};
