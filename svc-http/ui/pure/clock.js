// The server's clock, as far as answers tell it, and what is left of a lease by that clock.
//
// An answer's Date says the server's time between the moment of asking and that of the answer, in whole seconds. Of
// the last answers, that with the shortest round trip counts. Nothing here looks at a clock: times are given in ms.

/** @typedef {{trip: number, offset: number, slack: number}} Sample */
/** @typedef {{samples: Sample[]}} Clock */

const SAMPLES_KEPT = 10;
const SECOND = 1000;

/** @returns {Clock} */
export function newClock() {
  return { samples: [] };
}

/**
 * @param {Clock} clock
 * @param {{sent: number, received: number, date: string | null}} answer when by our clock, and the header Date
 * @returns {Clock}
 */
export function sample(clock, { sent, received, date }) {
  const said = date === null ? NaN : Date.parse(date);
  const trip = received - sent;
  if (Number.isNaN(said) || trip < 0) return clock;
  // The header leaves out the part of the second: in the middle it is half of one.
  const offset = said + SECOND / 2 - (sent + received) / 2;
  const now = { trip, offset, slack: trip / 2 + SECOND / 2 };
  // One of the clocks was set: what was measured before is of another time.
  const agreeing = clock.samples.filter((old) => Math.abs(old.offset - offset) <= old.slack + now.slack);
  return { samples: [...agreeing, now].slice(-SAMPLES_KEPT) };
}

/**
 * @param {Clock} clock
 * @returns {number} how far the server's clock is ahead of ours
 */
export function offset(clock) {
  let best = clock.samples[0];
  for (const other of clock.samples) if (other.trip <= best.trip) best = other;
  return best ? Math.round(best.offset) : 0;
}

/**
 * @param {Clock} clock
 * @param {number} local
 * @returns {number}
 */
export function serverNow(clock, local) {
  return local + offset(clock);
}

/**
 * @param {string | null | undefined} time as the API writes it
 * @returns {number | null}
 */
export function ms(time) {
  const parsed = time ? Date.parse(time) : NaN;
  return Number.isNaN(parsed) ? null : parsed;
}

const AMBER_SHARE = 0.2;
const RED_MS = 30 * SECOND;
/** What is little of a lease of which nobody knows how long it is. */
const AMBER_MS = 120 * SECOND;

/**
 * What is left until a time. At its end it is due, and whether it is over is for the server to say.
 * @param {number} until
 * @param {number} now by the server's clock
 * @param {number} [whole] how long it is in all, if that is known
 * @returns {{ms: number, state: 'plenty' | 'amber' | 'red' | 'due', share: number | null}}
 */
export function timeLeft(until, now, whole) {
  const left = Math.max(0, until - now);
  const share = whole && whole > 0 ? Math.min(1, left / whole) : null;
  return { ms: left, state: stateOf(left, share), share };
}

/**
 * @param {number} left
 * @param {number | null} share
 */
function stateOf(left, share) {
  if (left === 0) return "due";
  if (left < RED_MS) return "red";
  const isLittle = share === null ? left < AMBER_MS : share < AMBER_SHARE;
  return isLittle ? "amber" : "plenty";
}
