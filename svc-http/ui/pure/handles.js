// The mention that somebody is writing, for its completion. Whom a text mentions the service says
// (svc-core/src/conversation/mentions/parse.rs), by the same rule of where a mention begins:
//
// - An `@` within a word mentions nobody: behind a letter, a digit, `_`, `.`, `-`, `+` or another `@`, as in
//   an email. Letters of scripts without spaces are not of the word.
// - Behind a `/` it counts if one plain word or another mention is before that, as in `cc/@ada` and
//   `@ada/@bob`. It does not in a path or in an address, which has a dot, a scheme or another `/`.

/** Characters of a handle. */
const HANDLE_MAX = 254;
/** Characters before a place that are looked at for the word that is there. */
const WORD_MAX = 2_000;

const WITHIN = /[\p{Alphabetic}\p{N}\p{M}@＠_.+\\-]$/u;
/** Scripts without spaces between words, or that join endings to names. */
const UNSPACED =
  /[\u0e00-\u0edf\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\u{20000}-\u{3ffff}]$/u;
/** An address goes on up to a bracket of HTML, a quotation mark or punctuation of other scripts. */
const ADDRESS = /(?:^www\.|[\p{Alphabetic}\p{N}]:\/\/)[!#-;=?-~\p{Alphabetic}\p{N}]*$/iu;
const PLAIN = /^[^/.~\\=?#&%:@＠]+\/$/;

/** Whether a mention can begin behind this, the last one of the word having begun at a place. @param {string} before @param {number} last */
function mayBegin(before, last) {
  if (ADDRESS.test(before)) return false;
  if (!before.endsWith("/")) return !WITHIN.test(before) || UNSPACED.test(before);
  return PLAIN.test(before) || (last >= 0 && before.indexOf("/", last) === before.length - 1);
}

/**
 * The mention that is being written at a place in a text.
 *
 * @param {string} text
 * @param {number} caret
 * @returns {{start: number, end: number, word: string} | null}
 */
export function mentionAt(text, caret) {
  const word = /\S*$/.exec(text.slice(Math.max(0, caret - WORD_MAX), caret))?.[0] ?? "";
  let last = -1;
  for (const { index } of word.matchAll(/[@＠]/g)) if (mayBegin(word.slice(0, index), last)) last = index;
  const start = caret - word.length + last;
  if (last < 0 || caret - start > HANDLE_MAX) return null;
  return { start, end: caret, word: text.slice(start + 1, caret).toLowerCase() };
}

/** A handle as it is written in Markdown, where a sign of code would begin code. @param {string} handle */
export const writtenHandle = (handle) => handle.replace(/[`\\]/g, "\\$&");
