// What stands in a line of Markdown: emphasis, code, links, mentions. Every text is searched a bounded number of times,
// however it is made: a mark that has no end is looked for once, and what is in a mark ends before its next end, so that
// each mark is in each other at most.

import { createSigns, createWord, isSign } from "./handles.js";
import { shown } from "./shown.js";

/** @typedef {import("./text.js").TextNode} TextNode */
/** @typedef {(handle: string) => string | null} Mentions the member that a handle is of, if one sees it */
/**
 * @typedef {{mentions: Mentions, missed: (text: string) => void, signs: ReturnType<typeof createSigns>, quoted?: boolean,
 *   left: {nodes: number}}} Setting `missed`: is told of each mention of nobody; `quoted`: nobody is mentioned
 */

/** Marks around text, the longer first, and what is in them. @type {[string, "strong" | "strike" | "em", ("em")?][]} */
const MARKS = [
  ["***", "strong", "em"],
  ["**", "strong"],
  ["__", "strong"],
  ["~~", "strike"],
  ["*", "em"],
  ["_", "em"],
];
const SPECIAL = /[\\`*_~[<@＠\n]|https?:\/\//g;

/**
 * @param {string} text
 * @param {Setting} setting
 * @returns {TextNode[]}
 */
export function inline(text, setting) {
  return line(text, { setting, inLink: false, word: createWord(), without: new Set() });
}

/**
 * @param {string} text
 * @param {State} outer a link has no link in it, and marks are between the parts of one word
 * @returns {TextNode[]}
 */
function line(text, outer) {
  /** @type {TextNode[]} */
  const nodes = [];
  const state = { ...outer, without: new Set() };
  const { setting, word } = state;
  let [from, plainFrom, spoken] = [0, 0, 0];
  /** @param {number} to */
  const speak = (to) => {
    while (spoken < to) spoken = word.push(text, spoken);
  };
  const search = new RegExp(SPECIAL);
  while (from < text.length && setting.left.nodes > 0) {
    search.lastIndex = from;
    const found = search.exec(text);
    if (!found) break;
    const at = found.index;
    speak(at);
    const made = begin(text, at, state);
    if (made) {
      plain(text.slice(plainFrom, at), nodes, setting);
      nodes.push(...made.nodes);
      setting.left.nodes -= made.nodes.length;
      plainFrom = spoken = made.end;
    } else if (isSign(text[at])) {
      spoken = word.push(text, at, word.mayMention());
    }
    from = made ? made.end : at + 1;
  }
  speak(text.length);
  plain(text.slice(plainFrom), nodes, setting);
  return nodes;
}

/**
 * @param {string} text
 * @param {TextNode[]} nodes
 * @param {Setting} setting
 */
function plain(text, nodes, setting) {
  const made = shown(text);
  setting.left.nodes -= made.length;
  nodes.push(...made);
}

/**
 * @typedef {{setting: Setting, inLink: boolean, word: import("./handles.js").Word, without: Set<string>}} State
 * `word`: what was said before; `without`: ends that are not there
 */
/** @typedef {{nodes: TextNode[], end: number} | null} Made */

/**
 * @param {string} text
 * @param {number} at
 * @param {State} state
 * @returns {Made}
 */
function begin(text, at, state) {
  switch (text[at]) {
    case "\n":
      state.word.gap();
      return { nodes: [{ type: "break" }], end: at + 1 };
    case "\\":
      return escaped(text, at, state);
    case "`":
      return code(text, at, state);
    case "[":
      return state.inLink ? null : link(text, at, state);
    case "<":
      return angled(text, at, state);
    case "h":
      return state.inLink ? null : bare(text, at, state);
    case "@":
    case "＠":
      return mention(text, at, state);
    default:
      return marked(text, at, state);
  }
}

/**
 * Where an end is; once it is not found, it is not there for what follows either.
 * @param {string} text
 * @param {string} end
 * @param {number} from
 * @param {State} state
 */
function find(text, end, from, { without }) {
  if (without.has(end)) return -1;
  const at = text.indexOf(end, from);
  if (at < 0) without.add(end);
  return at;
}

/** @param {string} text @param {number} at @param {State} state @returns {Made} */
function escaped(text, at, { word }) {
  if (!/[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) return null;
  word.push(text, at + 1);
  return { nodes: shown(text[at + 1]), end: at + 2 };
}

/** @param {string} text @param {number} at @param {State} state @returns {Made} */
function code(text, at, state) {
  let length = 1;
  while (text[at + length] === "`") length += 1;
  const mark = "`".repeat(length);
  const end = length > 8 ? -1 : find(text, mark, at + length, state);
  // A run of signs that ends nowhere is text as a whole.
  if (end < 0) {
    state.word.push(text, at);
    return { nodes: [{ type: "text", text: mark }], end: at + length };
  }
  state.word.gap();
  return { nodes: [{ type: "code", children: shown(text.slice(at + length, end)) }], end: end + length };
}

/** @param {string} text @param {number} at @param {State} state @returns {Made} */
function marked(text, at, state) {
  for (const [mark, type, within] of MARKS) {
    if (!text.startsWith(mark, at) || !opens(text, at, mark)) continue;
    const end = closing(text, mark, at + mark.length, state);
    if (end < 0) continue;
    const inner = text.slice(at + mark.length, end);
    const children = line(inner, state);
    const inside = within ? [/** @type {TextNode} */ ({ type: within, children })] : children;
    return { nodes: [{ type, children: inside }], end: end + mark.length };
  }
  return null;
}

/** @param {string | undefined} char */
const isWord = (char) => char !== undefined && /[\p{L}\p{N}]/u.test(char);

/** Whether a mark can begin something: names_with_lines are no emphasis. @param {string} text @param {number} at @param {string} mark */
function opens(text, at, mark) {
  const after = text[at + mark.length];
  return after !== undefined && !/\s/.test(after) && after !== mark[0] && !(mark[0] === "_" && isWord(text[at - 1]));
}

/** How many ends are looked at of one beginning: those in words, or behind spaces, are none. */
const ENDS_MAX = 8;

/** @param {string} text @param {string} mark @param {number} from @param {State} state */
function closing(text, mark, from, state) {
  for (let [looked, at] = [0, from]; looked < ENDS_MAX; looked += 1) {
    const end = find(text, mark, at, state);
    if (end < 0) return -1;
    const next = text[end + mark.length];
    const ends = !/\s/.test(text[end - 1]) && end > from && !(mark[0] === "_" && isWord(next));
    // One sign is not the end within two.
    if (ends && !(mark.length === 1 && (next === mark || text[end - 1] === mark))) return end;
    at = end + (next === mark ? 2 : 1);
  }
  return -1;
}

/** @param {string} text @param {number} at @param {State} state @returns {Made} */
function link(text, at, state) {
  const middle = find(text, "](", at + 1, state);
  const end = middle < 0 ? -1 : find(text, ")", middle + 2, state);
  if (end < 0 || text.slice(at, middle).includes("\n\n")) return null;
  const href = webAddress(text.slice(middle + 2, end).trim());
  if (!href) return null;
  state.word.gap();
  const children = line(text.slice(at + 1, middle), { ...state, inLink: true });
  state.word.gap();
  return { nodes: [{ type: "link", href, children }], end: end + 1 };
}

/** A tag of HTML, as CommonMark defines it. */
const TAG =
  /^<\/?[A-Za-z][A-Za-z0-9-]*(?:\s+[A-Za-z_:][\w.:-]*(?:\s*=\s*(?:[^\s"'=<>`]+|'[^']*'|"[^"]*"))?)*\s*\/?>/;
/** So much of a text is looked at for its end. */
const TAG_MAX = 1_000;

/** @param {string} text @param {number} at @param {State} state @returns {Made} */
function angled(text, at, state) {
  const isLink = /^<https?:/.test(text.slice(at, at + 7));
  const tag = isLink ? undefined : TAG.exec(text.slice(at, at + TAG_MAX))?.[0];
  if (tag) {
    state.word.gap();
    return { nodes: shown(tag), end: at + tag.length };
  }
  if (!isLink || state.inLink) return null;
  const end = find(text, ">", at, state);
  const href = end < 0 ? null : webAddress(text.slice(at + 1, end));
  if (!href) return null;
  state.word.gap();
  return { nodes: [{ type: "link", href, children: shown(text.slice(at + 1, end)) }], end: end + 1 };
}

const ADDRESS = /https?:\/\/[^\s<>"'`{}|\\^]{1,2000}/y;

/** @param {string} text @param {number} at @param {State} state @returns {Made} */
function bare(text, at, { word }) {
  ADDRESS.lastIndex = at;
  const found = ADDRESS.exec(text)?.[0];
  if (!found || isWord(text[at - 1])) return null;
  const address = withoutEnd(found);
  const href = webAddress(address);
  if (!href) return null;
  const end = at + address.length;
  for (let from = at; from < end; ) from = word.push(text, from);
  return { nodes: [{ type: "link", href, children: shown(address) }], end };
}

/** Punctuation after an address is not of it, nor is a bracket that was opened before. @param {string} address */
function withoutEnd(address) {
  const cut = address.replace(/[.,;:!?*_~]+$/, "");
  return cut.endsWith(")") && !cut.includes("(") ? cut.slice(0, -1) : cut;
}

/**
 * @param {string} text
 * @returns {string | null} the address, if it leads to the web and says plainly where to
 */
export function webAddress(text) {
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  const isWeb = url.protocol === "https:" || url.protocol === "http:";
  // Before an @, a name looks like that of a host.
  return isWeb && url.username === "" && url.password === "" ? url.href : null;
}

/** @param {string} text @param {number} at @param {State} state @returns {Made} */
function mention(text, at, { setting, word }) {
  if (setting.quoted || !word.mayMention()) return null;
  const possible = setting.signs.at(text, at);
  for (const { name, end } of possible?.names ?? []) {
    const member = setting.mentions(name);
    if (member === null) continue;
    for (let from = at; from < at + end; ) from = word.push(text, from, from === at);
    return { nodes: [{ type: "mention", text: text.slice(at, at + end), member }], end: at + end };
  }
  if (possible?.looks) setting.missed(possible.looks);
  return null;
}
