// Where two texts differ: what they begin and end with alike, and what stands between, by lines.

/**
 * @param {string} one
 * @param {string} other
 * @returns {{before: string, one: string, other: string, after: string}} Each with the ends of its lines.
 */
export function differ(one, other) {
  const [lines, others] = [linesOf(one), linesOf(other)];
  const most = Math.min(lines.length, others.length);
  let from = 0;
  while (from < most && lines[from] === others[from]) from += 1;
  let end = 0;
  while (end < most - from && lines[lines.length - 1 - end] === others[others.length - 1 - end]) end += 1;
  return {
    before: lines.slice(0, from).join(""),
    one: lines.slice(from, lines.length - end).join(""),
    other: others.slice(from, others.length - end).join(""),
    after: lines.slice(lines.length - end).join(""),
  };
}

/** @param {string} text */
const linesOf = (text) => text.match(/[^\n]*\n|[^\n]+/g) ?? [];
