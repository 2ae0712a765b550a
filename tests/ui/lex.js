// Takes a module apart into what is code, what is a string, and what is a comment: as far as its source rules need it.

/** After these a slash begins a pattern, and is no division. */
const BEFORE_PATTERN = /(?:^|[([{,;:=!&|?+\-*%<>~^}]|\b(?:return|typeof|case|in|of|await|yield|void))\s*$/;

/**
 * Returns the parts in order, each {type, text, line}: `code`, `string` (without its quotes; of a template each piece),
 * `pattern`, `comment`.
 */
export function lex(source) {
  const parts = [];
  let [at, line, code, codeLine] = [0, 1, "", 1];
  const push = (type, text) => {
    if (type !== "code") flush();
    parts.push({ type, text, line });
    line += text.split("\n").length - 1;
  };
  const flush = () => {
    if (code) parts.push({ type: "code", text: code, line: codeLine });
    code = "";
  };
  // Of each template that is open: how many braces are open within its expression.
  const open = [];
  const template = () => {
    const end = /`|\$\{/g;
    for (let from = at; ;) {
      end.lastIndex = from;
      const found = end.exec(source) ?? { index: source.length, 0: "`" };
      if (isEscaped(source, found.index)) {
        from = found.index + 1;
        continue;
      }
      push("string", source.slice(at, found.index));
      at = found.index + found[0].length;
      if (found[0] === "${") open.push(0);
      return;
    }
  };
  const pieces = /\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/y;
  const pattern = /\/(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;
  while (at < source.length) {
    const char = source[at];
    pieces.lastIndex = at;
    pattern.lastIndex = at;
    const piece = pieces.exec(source)?.[0];
    const regex = char === "/" && !piece && BEFORE_PATTERN.test(before(parts, code)) ? pattern.exec(source)?.[0] : null;
    if (piece) {
      at += piece.length;
      if (char === "/") push("comment", piece);
      else push("string", piece.slice(1, -1));
    } else if (regex) {
      at += regex.length;
      push("pattern", regex);
    } else if (char === "`") {
      at += 1;
      template();
    } else {
      at += 1;
      if (open.length && char === "}" && open.at(-1) === 0) {
        open.pop();
        template();
        continue;
      }
      if (open.length && char === "{") open[open.length - 1] += 1;
      if (open.length && char === "}") open[open.length - 1] -= 1;
      if (!code) codeLine = line;
      code += char;
      if (char === "\n") line += 1;
    }
  }
  flush();
  return parts;
}

/** What stands before a place in code: a string or a pattern counts as a word. */
function before(parts, code) {
  if (code.trim()) return code;
  const last = parts.findLast(({ type, text }) => type !== "comment" && text.trim());
  return last === undefined || last.type === "code" ? (last?.text ?? "") + code : "word";
}

function isEscaped(source, at) {
  let signs = 0;
  while (source[at - 1 - signs] === "\\") signs += 1;
  return signs % 2 === 1;
}
