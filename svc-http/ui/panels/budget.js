// Budget of a task: limits, usage, and usage by member.
//
// Guarantees: each limit is shown as text as well as a coloured bar. Not here: setting limits.

import { BUDGET_LOW } from "../pure/rank.js";
import { reportedText } from "../people.js";
import { compact, duration, money, number } from "../pure/format.js";
import { limits, parts as say } from "../strings/en.js";
import { actionBar } from "../act.js";
import { h, setChildren, words } from "../view/node.js";

/** @typedef {import("../world.js").World} World */

/** @type {[limit: string, used: string, format: (value: number) => string][]} */
const LIMITS = [
  ["max_tokens", "tokens", compact],
  ["max_usd_micros", "usd_micros", money],
  ["max_turns", "turns", number],
  ["max_wall_secs", "wall_secs", (secs) => duration(secs * 1_000)],
  ["max_attempts", "attempts", number],
];

/**
 * @param {HTMLElement} place
 * @param {World} world
 * @returns {import("../panels.js").OpenPanel}
 */
export function open(place, world) {
  const rows = h("div.stack.tight");
  const usage = h("div.stack.tight");
  const buttons = h("div.row");
  const bar = actionBar(
    world,
    "thread",
    buttons,
    ({ id }) => id === "update_thread_budget" || id === "report_usage",
  );
  place.append(rows, usage, buttons);
  /** @type {unknown[]} */
  let drawn = [];
  return {
    show(thread) {
      const budget = world.store.get("budget", thread.id);
      const reports = world.store.get("usage", thread.id);
      if (drawn[0] !== budget || drawn[1] !== reports) {
        drawn = [budget, reports];
        setChildren(rows, budget ? limitRows(budget) : []);
        setChildren(usage, reports ? usageRows(world, reports.items) : []);
      }
      bar.show(thread);
    },
  };
}

/** @param {any} budget */
function limitRows(budget) {
  const set = LIMITS.filter(([limit]) => budget[limit] !== null && budget[limit] !== undefined);
  if (set.length === 0) return [h("p.quiet", say.noBudget)];
  return set.map(([limit, used, format]) => {
    const share = budget[limit] > 0 ? budget.used[used] / budget[limit] : 1;
    const tone = share >= 1 ? "bad" : share >= BUDGET_LOW ? "warn" : null;
    return h(
      "div",
      { "data-limit": limit },
      h(
        "div.row",
        h("span", limits[limit]),
        h("span.end", say.of(format(budget.used[used]), format(budget[limit]))),
      ),
      h("progress.bar", {
        max: 1,
        value: Math.min(1, share).toFixed(2),
        "data-tone": tone,
        "aria-hidden": "true",
      }),
    );
  });
}

/** Returns the usage, summed by member and model. @param {World} world @param {any[]} reports */
function usageRows(world, reports) {
  /**
   * @type {Map<string, {member_id: string, model: string | null, tokens: number, turns: number, usd_micros:
   * number, reports: number}>}
   */
  const sums = new Map();
  for (const { member_id, model, tokens, turns, usd_micros } of reports) {
    const key = `${member_id} ${model}`;
    const sum = sums.get(key) ?? { member_id, model, tokens: 0, turns: 0, usd_micros: 0, reports: 0 };
    sum.tokens += tokens ?? 0;
    sum.turns += turns ?? 0;
    sum.usd_micros += usd_micros ?? 0;
    sum.reports += 1;
    sums.set(key, sum);
  }
  return [...sums.values()].map((sum) =>
    h(
      "p.small",
      world.names.member(sum.member_id),
      sum.model ? h("span.quiet", " ", words(sum.model)) : "",
      ": ",
      reportedText(sum),
    ),
  );
}
