// What is known of a member beside itself: whether it is there, what it did last, what it holds and has used.
//
// Promises: presence and the last event are told apart, since a program that hangs is online too; one that
// holds work and is silent is said to be. Leaves out: how that looks.

import { ms } from "./pure/clock.js";
import { compact, money, number, relative } from "./pure/format.js";
import { createLast } from "./state/last.js";
import { people as say } from "./strings/en.js";

/** @typedef {import("./world.js").World} World */
/** @typedef {{tokens: number, turns: number, usd_micros: number, reports: number}} Used */

/** What is read of all members. */
export const PEOPLE_LISTS = ["online", "occupancy", "usage"].map((name) => `list/${name}`);
/** Who is online is in no event: it is asked for. */
export const PRESENCE_EVERY = 10_000;
/** Who holds a claim and has done nothing for so long is called silent. */
const SILENT = 900_000;

/** @param {World} world @param {string} id */
export function presenceOf({ store }, id) {
  const row = store.get("online", id);
  if (row) return { status: String(row.status), row };
  return { status: store.get("list", "online") ? "offline" : "unknown", row: null };
}

/** The chip of a presence has a colour beside its word. @type {Record<string, string | null>} */
export const TONES = { active: "ok", busy: "accent", away: "warn", offline: null, unknown: null };

/** @param {World} world @param {string} id */
export function heardText(world, id) {
  const at = ms(presenceOf(world, id).row?.seen_at);
  return at === null ? "" : say.heard(relative(Math.min(at, world.now()), world.now()));
}

/** How many live claims a member holds. @param {World} world @param {string} id */
export const claimsOf = ({ store }, id) => Number(store.get("busy", id)?.claims ?? 0);

/** When an event happened, in milliseconds. @param {import("./pure/types.js").LogEvent} event */
export const timeOf = (event) => event.payload.$chain.at / 1_000;

/** @type {WeakMap<World, ReturnType<typeof createLast>>} */
const lasts = new WeakMap();

/** What each member has done last, read once somebody wants to see it. @param {World} world */
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

/** What members have used in 30 days, by member. @param {World} world @returns {Map<string, Used>} */
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

/** What was reported, with how often. @param {any} sum */
export const reportedText = ({ tokens, turns, usd_micros, reports }) =>
  [say.tokens(compact(tokens)), say.turns(number(turns)), ...paid(usd_micros), say.reports(reports)].join(", ");

/** What nobody has put a price on costs nothing that is known. @param {number} micros */
const paid = (micros) => (micros > 0 ? [money(micros)] : []);

/** What else there is to say of a member, in a word. @param {any} member */
export function standingOf(member) {
  if (member.active === false) return { text: say.deactivated, tone: null };
  return member.frozen ? { text: say.frozen, tone: "bad" } : null;
}
