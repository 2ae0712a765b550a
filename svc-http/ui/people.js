// Data of a member in lists: presence, last event, claims and usage.
//
// Guarantees: presence and the last event are separate, since a program that hangs is online too; a member
// who holds a claim and does nothing is marked silent. Not here: rendering.

import { ms } from "./pure/clock.js";
import { compact, money, number, relative } from "./pure/format.js";
import { createLast } from "./state/last.js";
import { people as say } from "./strings/en.js";

/** @typedef {import("./world.js").World} World */
/** @typedef {{tokens: number, turns: number, usd_micros: number, reports: number}} Used */

/** Lists that are read for all members. */
export const PEOPLE_LISTS = ["online", "occupancy", "usage"].map((name) => `list/${name}`);
/** Milliseconds between reads of presence, which no event reports. */
export const PRESENCE_EVERY = 10_000;
/** Milliseconds without an event after which a member who holds a claim is marked silent. */
const SILENT = 900_000;

/** @param {World} world @param {string} id */
export function presenceOf({ store }, id) {
  const row = store.get("online", id);
  if (row) return { status: String(row.status), row };
  return { status: store.get("list", "online") ? "offline" : "unknown", row: null };
}

/** Colours of the presence chips; each chip also has a word. @type {Record<string, string | null>} */
export const TONES = { active: "ok", busy: "accent", away: "warn", offline: null, unknown: null };

/** @param {World} world @param {string} id */
export function heardText(world, id) {
  const at = ms(presenceOf(world, id).row?.seen_at);
  return at === null ? "" : say.heard(relative(Math.min(at, world.now()), world.now()));
}

/** Returns how many live claims a member holds. @param {World} world @param {string} id */
export const claimsOf = ({ store }, id) => Number(store.get("busy", id)?.claims ?? 0);

/** Returns the time of an event in milliseconds. @param {import("./pure/types.js").LogEvent} event */
export const timeOf = (event) => event.payload.$chain.at / 1_000;

/** @type {WeakMap<World, ReturnType<typeof createLast>>} */
const lasts = new WeakMap();

/** Returns the last events of each member, which are read once a screen needs them. @param {World} world */
export function lastEvents(world) {
  const last = lasts.get(world) ?? createLast(world);
  lasts.set(world, last);
  world.endings.add(last.close);
  return last;
}

/** @param {World} world @param {string} id */
export function lastOf(world, id) {
  const last = lastEvents(world);
  const event = last.of(id)[0] ?? null;
  if (!event) {
    const from = last.from();
    return {
      event,
      isSilent: false,
      text: from === null ? "" : from <= 1 ? say.noEvent : say.noEventSince(number(from)),
    };
  }
  const [at, now] = [timeOf(event), world.now()];
  const isSilent = claimsOf(world, id) > 0 && now - at > SILENT;
  const when = relative(Math.min(at, now), now);
  return { event, isSilent, text: isSilent ? say.quiet(when) : say.last(when) };
}

/** Returns each member's usage in the last 30 days. @param {World} world @returns {Map<string, Used>} */
export function usageByMember({ store }) {
  /** @type {Map<string, Used>} */
  const sums = new Map();
  for (const { member_id, tokens, turns, usd_micros, reports } of store.all("usage_sum")) {
    const sum = sums.get(member_id) ?? { tokens: 0, turns: 0, usd_micros: 0, reports: 0 };
    sum.tokens += tokens;
    sum.turns += turns;
    sum.usd_micros += usd_micros;
    sum.reports += reports;
    sums.set(member_id, sum);
  }
  return sums;
}

/** @param {Used | undefined} used */
export const usedText = (used) =>
  used ? [say.tokens(compact(used.tokens)), ...paid(used.usd_micros)].join(", ") : say.unused;

/** Returns the reported usage as text, with the number of reports. @param {any} sum */
export const reportedText = ({ tokens, turns, usd_micros, reports }) =>
  [say.tokens(compact(tokens)), say.turns(number(turns)), ...paid(usd_micros), say.reports(reports)].join(", ");

/** Returns the cost as text, or nothing if no price was reported. @param {number} micros */
const paid = (micros) => (micros > 0 ? [money(micros)] : []);

/** Returns the chip for a member who is frozen or deactivated, or null. @param {any} member */
export function standingOf(member) {
  if (member.active === false) return { text: say.deactivated, tone: null };
  return member.frozen ? { text: say.frozen, tone: "bad" } : null;
}
