// Finds the mention that a member is typing, for its completion.
//
// The server decides whom a text mentions (svc-core/src/conversation/mentions/parse.rs), with the same rule
// for the beginning of a mention:
//
// - An `@` within a word does not begin a mention: behind a letter, a digit, `_`, `.`, `-`, `+` or another
// `@`, as in an email address. Letters of scripts without spaces do not belong to the word.
//
// - An `@` behind a `/` begins one if a single plain word or another mention precedes, as in `cc/@ada` and
// `@ada/@bob`, but not in a path or an address, which has a dot, a scheme or another `/`.

/** Maximum characters of a handle. */
const HANDLE_MAX = 254;
/** Maximum characters before the caret that are searched for the current word. */
const WORD_MAX = 2_000;

const WITHIN = /[\p{Alphabetic}\p{N}\p{M}@＠_.+\\-]$/u;
/** Matches a final letter of a script without spaces between words, or with endings joined to names. */
const UNSPACED =
  /[\u0e00-\u0edf\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\u{20000}-\u{3ffff}]$/u;
/** Matches text that ends within an address, which HTML brackets, quotes and non-ASCII punctuation end. */
const ADDRESS = /(?:^www\.|[\p{Alphabetic}\p{N}]:\/\/)[!#-;=?-~\p{Alphabetic}\p{N}]*$/iu;
const PLAIN = /^[^/.~\\=?#&%:@＠]+\/$/;

/**
 * Returns whether a mention can begin after `before`; `last` is where the word's previous mention began.
 *
 * @param {string} before
 * @param {number} last
 */
function mayBegin(before, last) {
  if (ADDRESS.test(before)) return false;
  if (!before.endsWith("/")) return !WITHIN.test(before) || UNSPACED.test(before);
  return PLAIN.test(before) || (last >= 0 && before.indexOf("/", last) === before.length - 1);
}

/**
 * Returns the mention that is being typed at the caret.
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

/** Escapes a handle for Markdown, where a backtick would begin code. @param {string} handle */
export const writtenHandle = (handle) => handle.replace(/[`\\]/g, "\\$&");
