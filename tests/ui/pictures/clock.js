// The time of a picture: the same one whenever it is taken, with a past in which things have happened one after the other.
//
// Promises: what was made after `ago(n)` was made n minutes before the picture, to the second. Leaves out: the service,
// which has the time that it is; the page alone is told another one.

/** When every picture is taken. Half a minute: no word turns to another one while it is taken. */
const TAKEN = Date.UTC(2026, 10, 24, 10, 42, 30);

export function createPast() {
  /** From when on what counts as which time. @type {[number, number][]} */
  const steps = [];
  return {
    /** What comes now was so many minutes ago. @param {number} minutes */
    ago: (minutes) => void steps.push([Date.now(), TAKEN - minutes * 60_000]),
    /** What `inThePast` is given in a page. */
    given: () => ({ taken: TAKEN, steps: [...steps, [Date.now(), TAKEN]] }),
  };
}

/**
 * Runs in a page before its scripts: puts its clock, and each time in an answer, into that past.
 *
 * @param {{taken: number, steps: [number, number][]}} past
 */
export function inThePast({ taken, steps }) {
  const Own = Date;
  const opened = Own.now();
  const now = () => taken + (Own.now() - opened);
  globalThis.Date = class extends Own {
    constructor(...given) {
      super(...(given.length ? given : [now()]));
    }
    static now() {
      return now();
    }
  };
  const last = steps.at(-1)[0];
  const moved = (time) => {
    const step = steps.findLast(([from]) => from <= time) ?? steps[0];
    // What ends later is as far from the picture as it was from the last step.
    return time > last ? taken + time - last : step[1];
  };
  const parse = JSON.parse;
  JSON.parse = (text, ...more) => {
    const words = String(text).replace(/\b20\d\d-\d\d-\d\dT[\d:.]+Z/g, (at) => new Own(moved(Own.parse(at))).toISOString());
    // In events, times are millionths of a second since 1970.
    const all = words.replace(/(?<="at":)\d{16}\b/g, (at) => String(moved(Number(at) / 1_000) * 1_000));
    return parse(all, ...more);
  };
  const get = Headers.prototype.get;
  Headers.prototype.get = function (name) {
    return name.toLowerCase() === "date" ? new Own(now()).toUTCString() : get.call(this, name);
  };
}
