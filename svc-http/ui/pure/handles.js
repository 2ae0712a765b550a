// What an `@` mentions. The service counts by the same rule (svc-core/src/conversation/mentions/parse.rs):
//
// - A mention is an `@` and the longest handle of a member behind it, in any case. A handle may have every
//   character that a directory may give it: letters of any script, digits, and all signs of ASCII.
// - A handle ends where its word ends: `@adam` is not `@ada`, and neither are `@ada-b` and `@ada@b.example`.
//   Signs that no handle chosen by hand has do not continue a word, nor do `.`, `:`, `-` and `_` at its end:
//   `@ada's`, `@ada/@bob`, `@ada.` and `(@ada)` are `@ada`, unless a longer handle fits.
// - An `@` within a word mentions nobody: behind a letter, a digit, `_`, `.`, `-`, `+` or another `@`, as in
//   an email. Letters of scripts without spaces are not of the word.
// - Behind a `/` it counts if one plain word or another mention is before that, as in `cc/@ada` and
//   `@ada/@bob`. It does not in a path or in an address, which has a dot, a scheme or another `/`.
// - Code, quotes, HTML, the targets of links, bare addresses such as `https://x.example/@ada`, and an `@` behind
//   a backslash mention nobody. A sign in a handle that is Markdown may have a backslash before it.
// - A handle that no member has is reported as written: letters, digits and `@+:._-`, or a whole email.

/** Characters of a handle. */
const HANDLE_MAX = 254;
/** Names that one mention can be, those that end first and those that end last. */
const NAMES_MAX = 64;
const LAST_NAMES = 16;

const ALPHANUMERIC = /[\p{Alphabetic}\p{N}]/u;
const OF_WORD = /[\p{Alphabetic}\p{N}\p{M}]/u;
const OF_HANDLE = /[\p{Alphabetic}\p{N}\p{M}@+:._-]/u;
const OF_EMAIL = /[!#$%&'*+\-.=?^_`{|}~]/;
const OF_HOST = /[\p{Alphabetic}\p{N}\p{M}.-]/u;
const TRAILING = /[.:_-]/;
const ODD = /[.~\\=?#&%]/;
const SPACE = /[\s\p{Cc}]/u;
/** Scripts without spaces between words, or that join endings to names. */
const UNSPACED =
  /[\u0e00-\u0edf\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\u{20000}-\u{3ffff}]/u;

/** @param {string | undefined} char */
export const isSign = (char) => char === "@" || char === "＠";

/** @param {string} char */
const isAscii = (char) => char < "\u0080";

/** @param {string} text @param {number} at */
const charAt = (text, at) => String.fromCodePoint(text.codePointAt(at) ?? 0x20);

/**
 * The word that a text is in, up to some place: what stands behind the last space.
 *
 * @typedef {ReturnType<typeof createWord>} Word
 */
export function createWord() {
  const none = () => ({ before: "", isAddress: false, isPath: false, plain: 0, isBegun: false, hasMention: false, isOdd: false });
  let word = none();

  /** An address goes on up to a space, a bracket of HTML, a quotation mark or punctuation of other scripts. @param {string} char */
  const endsAddress = (char) => /[<>"]/.test(char) || !(isAscii(char) || ALPHANUMERIC.test(char));

  function slash() {
    if (!word.hasMention) word.plain += 1;
    if (!word.isBegun || (!word.hasMention && (word.isOdd || word.plain > 1))) word.isPath = true;
    Object.assign(word, { before: "/", isBegun: false, hasMention: false, isOdd: false });
  }

  return {
    /** Begins another word. */
    gap: () => void (word = none()),
    /** Whether a sign that comes next can begin a mention. */
    mayMention() {
      const { before, isAddress, isPath } = word;
      if (isAddress) return false;
      if (before === "/") return !isPath;
      return !((OF_WORD.test(before) && !UNSPACED.test(before)) || /[@＠_.+-]/.test(before));
    },
    /**
     * Goes on with the character at a place.
     *
     * @param {string} text
     * @param {number} at
     * @param {boolean} [isMention]
     * @returns {number} the place behind it
     */
    push(text, at, isMention = false) {
      const char = charAt(text, at);
      const next = at + char.length;
      if (/\s/.test(char) || (word.isAddress && endsAddress(char))) {
        word = { ...none(), before: char };
        return next;
      }
      const isScheme = text.startsWith("://", at) && ALPHANUMERIC.test(word.before);
      if (isScheme || (!word.isBegun && /^www\.$/i.test(text.slice(at, at + 4)))) word.isAddress = true;
      if (char === "/") slash();
      else {
        word.isBegun = true;
        word.hasMention ||= isMention;
        word.isOdd ||= (isSign(char) && !isMention) || ODD.test(char) || text.startsWith(":/", at);
        word.before = char;
      }
      return next;
    },
  };
}

/**
 * What follows a sign, up to a space: its characters, and where each ends.
 *
 * @typedef {{char: string, end: number}[]} Run
 */

/**
 * @param {string} text
 * @param {number} at of the sign
 * @param {boolean} [unescaped] without the backslashes in it
 * @returns {Run}
 */
function runBehind(text, at, unescaped = false) {
  const run = [];
  let from = at + 1;
  while (from < text.length && run.length < HANDLE_MAX) {
    if (unescaped && text[from] === "\\" && /[!-/:-@[-`{-~]/.test(text[from + 1] ?? "")) from += 1;
    const char = charAt(text, from);
    if (SPACE.test(char)) break;
    from += char.length;
    run.push({ char, end: from });
  }
  return run;
}

/** How many characters each name has that a run can begin with, the shortest first. @param {Run} run */
function endsOf(run) {
  const ends = [];
  // Whether a name can end before what was looked at last, if that is punctuation that may be behind it.
  let behindTrails = true;
  for (let index = run.length - 1; index >= 0; index -= 1) {
    const before = run[index].char;
    const after = run[index + 1]?.char;
    /** @type {boolean} */
    const trails = after === undefined || !OF_HANDLE.test(after) || (TRAILING.test(after) && behindTrails);
    if (trails || canEndBetween(before, after)) ends.push(index + 1);
    behindTrails = trails;
  }
  ends.reverse();
  if (ends.length > NAMES_MAX) ends.splice(NAMES_MAX - LAST_NAMES, ends.length - NAMES_MAX);
  return ends;
}

/** @param {string} before @param {string} after */
function canEndBetween(before, after) {
  if (after === ":" || UNSPACED.test(before) || UNSPACED.test(after)) return true;
  return ALPHANUMERIC.test(before) && ALPHANUMERIC.test(after) && isAscii(before) !== isAscii(after);
}

/** A name as handles are stored. @param {string} name */
const stored = (name) =>
  name
    .replace(/[\uff01-\uff5e]/g, (char) => String.fromCharCode(char.charCodeAt(0) - 0xfee0))
    .normalize("NFC")
    .toLowerCase();

/** How many characters of a run look like a handle: an email, or what people choose. @param {Run} run */
function lookingLike(run) {
  /** @param {number} from @param {(char: string) => boolean} fits */
  const until = (from, fits) => {
    let end = from;
    while (end < run.length && fits(run[end].char)) end += 1;
    return end;
  };
  /** @param {number} end */
  const spoken = (end) => {
    let last = end;
    while (last > 0 && TRAILING.test(run[last - 1].char)) last -= 1;
    return last;
  };
  const plain = spoken(until(0, (char) => OF_HANDLE.test(char)));
  const local = until(0, (char) => !isSign(char) && (OF_HANDLE.test(char) || OF_EMAIL.test(char)));
  const isLocal = local > 0 && OF_HANDLE.test(run[local - 1].char) && isSign(run[local]?.char);
  const host = isLocal ? spoken(until(local + 1, (char) => OF_HOST.test(char))) : 0;
  const hasDot = run.slice(local, host).some(({ char }) => char === ".");
  return host > local + 1 && hasDot ? Math.max(plain, host) : plain;
}

/**
 * @typedef {{names: {name: string, end: number}[], looks: string}} Possible `names`: the longest first, as handles are
 * stored, and how many places behind the sign each ends; `looks`: what it is called if it is no member's
 */

/** @param {Run} run @param {number} at @returns {{name: string, end: number}[]} */
const namesOf = (run, at) =>
  endsOf(run)
    .reverse()
    .map((length) => ({
      name: stored(
        run
          .slice(0, length)
          .map(({ char }) => char)
          .join(""),
      ),
      end: run[length - 1].end - at,
    }));

/** Different texts behind a sign that are looked at in a text. */
const RUNS_MAX = 300;

/** What follows signs, each looked at once. */
export function createSigns() {
  /** @type {Map<string, Possible>} */
  const seen = new Map();
  return {
    /** @param {string} text @param {number} at of the sign @returns {Possible | null} */
    at(text, at) {
      const run = runBehind(text, at);
      const written = text.slice(at, run.at(-1)?.end ?? at);
      const known = seen.get(written);
      if (known || !written || seen.size >= RUNS_MAX) return known ?? null;
      const names = namesOf(run, at);
      if (written.includes("\\")) {
        names.push(...namesOf(runBehind(text, at, true), at));
        names.sort((one, other) => other.end - one.end);
      }
      const length = lookingLike(run);
      const found = { names, looks: length ? text.slice(at, run[length - 1].end) : "" };
      seen.set(written, found);
      return found;
    },
  };
}

/** Characters before a place that are looked at for the word that is there. */
const WORD_MAX = 2_000;

/**
 * The mention that is being written at a place in a text.
 *
 * @param {string} text
 * @param {number} caret
 * @returns {{start: number, end: number, word: string} | null}
 */
export function mentionAt(text, caret) {
  const before = text.slice(Math.max(0, caret - WORD_MAX), caret);
  const from = caret - (/\S*$/.exec(before.slice(-WORD_MAX))?.[0].length ?? 0);
  const word = createWord();
  let start = -1;
  for (let at = from; at < caret; ) {
    const begins = isSign(text[at]) && text[at - 1] !== "\\" && word.mayMention();
    if (begins) start = at;
    at = word.push(text, at, begins);
  }
  if (start < 0 || caret - start > HANDLE_MAX) return null;
  return { start, end: caret, word: text.slice(start + 1, caret).toLowerCase() };
}

/** A handle as it is written in Markdown, where a sign of code would begin code. @param {string} handle */
export const writtenHandle = (handle) => handle.replace(/[`\\]/g, "\\$&");
