// Live region of the page, for screen readers.
//
// Guarantees: at most one sentence in 10 s; of several waiting sentences, the last is announced. Not here:
// choosing sentences, and clocks.

const EVERY = 10_000;

/**
 * @param {HTMLElement} region Element with the role `status`.
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
