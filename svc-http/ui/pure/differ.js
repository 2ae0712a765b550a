// Splits two texts, by lines, into their common beginning, the parts that differ, and their common end.

/**
 * @param {string} one
 * @param {string} other
 * @returns {{before: string, one: string, other: string, after: string}} Each part includes its line ends.
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
