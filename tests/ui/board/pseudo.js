// A language for tests: every sentence of the board with other letters, and 40 % longer.
//
// Promises: it is made of the sentences as they are, so that none is forgotten; what is no sentence stays. Leaves out:
// dates and numbers, which Intl says, and what the service itself says.

import * as sentences from "../../../svc-http/ui/strings/en.js";

/** What is exported beside sentences: forms of words, and codes of ways. */
const NO_SENTENCES = ["plural", "waysOut"];

/** The part that runs in the page. */
function translator() {
  const LETTERS = "âƀçđéƒğħíĵķļɱñóþɋřšţúṽŵẋýž";
  const LONGER = 0.4;
  const letter = (one) => {
    const at = one.toLowerCase().charCodeAt(0) - 97;
    const other = LETTERS[at];
    return one === one.toLowerCase() ? other : other.toUpperCase();
  };

  /** Words of a sentence get longer, so that they break as words do. */
  function word(text) {
    const more = Math.ceil(text.length * LONGER);
    return text.replace(/[a-z]/gi, letter) + "é".repeat(more);
  }
  // What is made of sentences that are translated already has no such letters any more where they stand.
  const sentence = (text) => text.replace(/[a-z]+/gi, word);

  /** Parts of a sentence name things by ids, which are no words. */
  function said(result) {
    if (typeof result === "string") return sentence(result);
    if (Array.isArray(result)) return result.map(said);
    if (result && typeof result === "object" && typeof result.text === "string")
      return { ...result, text: sentence(result.text) };
    return result;
  }

  return function translated(value) {
    if (typeof value === "string") return sentence(value);
    if (typeof value === "function") return (...given) => said(value(...given));
    if (Array.isArray(value)) return value.map(translated);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, translated(inner)]));
    }
    return value;
  };
}

/** The bodies of a file of modules, to which those of strings/ give translations. */
function speaking(pack, translated, names) {
  const spoken = new Map();
  const speak = (name, own) => {
    const words = Object.entries(own).map(([key, value]) => [key, names.includes(key) ? translated(value) : value]);
    if (!spoken.has(name)) spoken.set(name, Object.fromEntries(words));
    return spoken.get(name);
  };
  const bodies = Object.entries(pack).map(([name, body]) => {
    if (name.startsWith("strings/")) return [name, body];
    const heard = (need) => (other) => (other.startsWith("strings/") ? speak(other, need(other)) : need(other));
    return [name, (need, ...more) => body(heard(need), ...more)];
  });
  return Object.fromEntries(bodies);
}

/** Has a page speak it. */
export async function speakPseudo(page) {
  const names = Object.keys(sentences).filter((name) => !NO_SENTENCES.includes(name));
  const end = `export default (${speaking})(pack, (${translator})(), ${JSON.stringify(names)});`;
  await page.route(/\/(?:main|rest)\.js$/, async (route) => {
    const answer = await route.fetch();
    const pack = (await answer.text()).replace(/^export default/, "const pack =");
    await route.fulfill({ response: answer, body: `${pack}${end}` });
  });
}
