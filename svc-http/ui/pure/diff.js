// Parses a diff into lines with their kinds, and into rows of two lines side by side.
//
// Guarantees: any text is accepted; a line that is not part of a diff becomes a line of kind `same`, and
// lines beyond the limit are returned as text.

/** @typedef {{kind: "head" | "hunk" | "add" | "del" | "same", text: string}} DiffLine */
/** @typedef {{left: DiffLine | null, right: DiffLine | null} | {both: DiffLine}} DiffRow */

const HUNK = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/;
const HEAD = /^(?:(?:diff|index|---|\+\+\+|rename|copy|similarity|Binary) |\w+ (?:file )?mode )/;
/** @type {Record<string, "add" | "del" | "same" | "head">} */
const SIGNS = { "+": "add", "-": "del", "\\": "head" };

/**
 * @param {string} text
 * @param {number} most Maximum number of lines that are parsed.
 * @returns {{lines: DiffLine[], rest: string}} `rest`: the text after the parsed lines
 */
export function linesOf(text, most) {
  const all = text.replace(/\n$/, "").split("\n");
  /** @type {DiffLine[]} */
  const lines = [];
  // Remaining lines of the hunk on each side, according to its header.
  let [before, after] = [0, 0];
  for (const line of all.slice(0, most)) {
    const hunk = HUNK.exec(line);
    const isInside = before > 0 || after > 0;
    if (hunk) {
      [before, after] = [Number(hunk[1] ?? 1), Number(hunk[2] ?? 1)];
      lines.push({ kind: "hunk", text: line });
    } else if (HEAD.test(line) && !(isInside && /^[-+]/.test(line))) {
      [before, after] = [0, 0];
      lines.push({ kind: "head", text: line });
    } else {
      const kind = SIGNS[line[0]] ?? "same";
      if (kind === "del" || kind === "same") before -= 1;
      if (kind === "add" || kind === "same") after -= 1;
      lines.push({ kind, text: line });
    }
  }
  return { lines, rest: all.slice(most).join("\n") };
}

/**
 * @param {DiffLine[]} lines
 * @returns {DiffRow[]} what to draw: removed lines beside the added lines that replace them
 */
export function rowsOf(lines) {
  /** @type {DiffRow[]} */
  const rows = [];
  for (let at = 0; at < lines.length; ) {
    const out = runOf(lines, at, "del");
    const added = runOf(lines, at + out.length, "add");
    for (let row = 0; row < Math.max(out.length, added.length); row += 1)
      rows.push({ left: out[row] ?? null, right: added[row] ?? null });
    at += out.length + added.length;
    if (out.length + added.length > 0) continue;
    const line = lines[at];
    rows.push(line.kind === "same" ? { left: line, right: line } : { both: line });
    at += 1;
  }
  return rows;
}

/** @param {DiffLine[]} lines @param {number} from @param {"add" | "del"} kind */
function runOf(lines, from, kind) {
  let end = from;
  while (lines[end]?.kind === kind) end += 1;
  return lines.slice(from, end);
}
