// The one live region of the page, for who hears the board instead of seeing it.
//
// Promises: at most one sentence in 10 s; of several that wait, the last is said. Leaves out: what is worth
// saying, and clocks.

const EVERY = 10_000;

/**
 * @param {HTMLElement} region An element with role `status`.
 * @returns {(sentence: string) => void}
 */
export function createSay(region) {
  let saidAt = -EVERY;
  /** @type {string | null} */
  let waiting = null;

  function next() {
    if (waiting === null) return;
    saidAt = performance.now();
    region.textContent = waiting;
    waiting = null;
  }

  return (sentence) => {
    const isFirst = waiting === null;
    waiting = sentence;
    const rest = saidAt + EVERY - performance.now();
    if (rest <= 0) next();
    else if (isFirst) setTimeout(next, rest);
  };
}
