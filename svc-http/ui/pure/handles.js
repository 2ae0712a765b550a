// The mention that somebody is writing, for its completion. Whom a text mentions the service says
// (svc-core/src/conversation/mentions/parse.rs), by the same rule of where a mention begins:
//
// - An `@` within a word mentions nobody: behind a letter, a digit, `_`, `.`, `-`, `+` or another `@`, as in
//   an email. Letters of scripts without spaces are not of the word.
// - Behind a `/` it counts if one plain word or another mention is before that, as in `cc/@ada` and
//   `@ada/@bob`. It does not in a path or in an address, which has a dot, a scheme or another `/`.

/** Characters of a handle. */
const HANDLE_MAX = 254;

const ALPHANUMERIC = /[\p{Alphabetic}\p{N}]/u;
const OF_WORD = /[\p{Alphabetic}\p{N}\p{M}]/u;
const ODD = /[.~\\=?#&%]/;
/** Scripts without spaces between words, or that join endings to names. */
const UNSPACED =
  /[\u0e00-\u0edf\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\u{20000}-\u{3ffff}]/u;

/** @param {string | undefined} char */
const isSign = (char) => char === "@" || char === "＠";

/** @param {string} char */
const isAscii = (char) => char < "\u0080";

/** @param {string} text @param {number} at */
const charAt = (text, at) => String.fromCodePoint(text.codePointAt(at) ?? 0x20);

/**
 * The word that a text is in, up to some place: what stands behind the last space.
 *
 * @typedef {ReturnType<typeof createWord>} Word
 */
function createWord() {
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
