// The server's clock, estimated from answers, and the time left on a lease by that clock.
//
// The header Date of an answer is the server's time, in whole seconds, between request and answer. Of the
// latest answers, the one with the shortest round trip counts. Not here: reading a clock; times are
// parameters, in ms.

/** @typedef {{trip: number, offset: number, slack: number}} Sample */
/** @typedef {{samples: Sample[]}} Clock */

const SAMPLES_KEPT = 10;
const SECOND = 1000;

/** @returns {Clock} */
export function newClock() {
  return { samples: [] };
}

/**
 * Adds the sample of one answer.
 *
 * @param {Clock} clock
 * @param {{sent: number, received: number, date: string | null}} answer times by the browser's clock, and the
 * header Date
 * @returns {Clock}
 */
export function sample(clock, { sent, received, date }) {
  const said = date === null ? NaN : Date.parse(date);
  const trip = received - sent;
  if (Number.isNaN(said) || trip < 0) return clock;
  // The header omits the fraction of the second, which is half a second on average.
  const offset = said + SECOND / 2 - (sent + received) / 2;
  const now = { trip, offset, slack: trip / 2 + SECOND / 2 };
  // Older samples that disagree are from before one of the clocks was set.
  const agreeing = clock.samples.filter((old) => Math.abs(old.offset - offset) <= old.slack + now.slack);
  return { samples: [...agreeing, now].slice(-SAMPLES_KEPT) };
}

/**
 * @param {Clock} clock
 * @returns {number} how far the server's clock is ahead of the browser's, in ms
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
 * @param {string | null | undefined} time in the format of the API
 * @returns {number | null}
 */
export function ms(time) {
  const parsed = time ? Date.parse(time) : NaN;
  return Number.isNaN(parsed) ? null : parsed;
}

const AMBER_SHARE = 0.2;
const RED_MS = 30 * SECOND;
/** Time left that counts as little on a lease of unknown length. */
const AMBER_MS = 120 * SECOND;

/**
 * Returns the time left until `until`. At zero a lease is due; only the server knows whether it has ended.
 * @param {number} until
 * @param {number} now by the server's clock, in ms
 * @param {number} [whole] whole length of the lease, if known
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
