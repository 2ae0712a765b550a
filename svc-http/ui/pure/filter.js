// Filters of the board and the log: parsing them from a query or typed text, formatting and matching.

/**
 * @typedef {object} Filter fields of a filter, each empty if it does not restrict
 * @property {string} text words that the title must contain
 * @property {string} channel id or name
 * @property {string} member id or handle of the holder or the owner
 * @property {string} repo
 * @property {string} skill
 * @property {string} state
 * @property {string} lane
 * @property {string} priority minimum priority
 * @property {string} by grouping of the lanes
 */
/** @typedef {import("./types.js").Thread} Thread */
/** @typedef {import("./types.js").LogEvent} LogEvent */
/**
 * @typedef {object} Names functions that return names of ids and lanes, where known
 * @property {(id: string) => string} [channelName]
 * @property {(id: string) => string} [handle]
 * @property {(thread: Thread) => string} [lane]
 */

/** @type {(keyof Filter)[]} */
const FIELDS = ["text", "channel", "member", "repo", "skill", "state", "lane", "priority", "by"];

/** @returns {Filter} */
export function noFilter() {
  return { text: "", channel: "", member: "", repo: "", skill: "", state: "", lane: "", priority: "", by: "" };
}

/**
 * @param {URLSearchParams} params
 * @returns {Filter}
 */
export function fromQuery(params) {
  const filter = noFilter();
  for (const field of FIELDS) filter[field] = params.get(field) ?? "";
  return filter;
}

/**
 * @param {Partial<Filter>} filter
 * @returns {string} always the same query for the same filter
 */
export function toQuery(filter) {
  const params = new URLSearchParams();
  for (const field of FIELDS) if (filter[field]) params.set(field, filter[field]);
  return params.toString();
}

/**
 * @param {Filter} filter
 * @returns {boolean}
 */
export function isEmpty(filter) {
  return FIELDS.every((field) => field === "by" || filter[field] === "");
}

/** Filter fields by the prefix that the user types before a colon. @type {Record<string, keyof Filter>} */
const TYPED = {
  in: "channel",
  by: "member",
  repo: "repo",
  skill: "skill",
  state: "state",
  lane: "lane",
};

/** Matches a word, or a quoted text with its prefix; a quotation mark inside is doubled. */
const WORD = /(?:(\w+:)|(@))?"((?:[^"]|"")*)"(?!\S)|\S+/g;

/**
 * Parses typed text: `in:general in:"my team" @ada repo:acme/core skill:rust p>5`, and words.
 * @param {string} text
 * @returns {Filter}
 */
export function parseTyped(text) {
  const filter = noFilter();
  const words = [];
  for (const [word, name = "", at, quoted] of text.matchAll(WORD)) {
    const value = quoted?.replaceAll('""', '"');
    const meant = value === undefined ? meaning(word) : at ? memberIs(value) : named(name, value);
    if (meant) Object.assign(filter, meant);
    else words.push(value ?? word);
  }
  return { ...filter, text: words.join(" ") };
}

/** @param {string} value @returns {Partial<Filter>} */
const memberIs = (value) => ({ member: value });

/** @param {string} name prefix with its colon @param {string} value @returns {Partial<Filter> | null} */
function named(name, value) {
  const key = name.slice(0, -1).toLowerCase();
  return Object.hasOwn(TYPED, key) ? { [TYPED[key]]: value } : null;
}

/**
 * Returns the filter that a word expresses; null if it is a plain word.
 *
 * @param {string} word
 * @returns {Partial<Filter> | null}
 */
function meaning(word) {
  const [, name, value] = /^(\w+:)(.+)$/.exec(word) ?? [];
  const priority = /^p>(-?\d{1,3})$/.exec(word);
  if (priority) return { priority: String(Number(priority[1]) + 1) };
  if (/^@./.test(word)) return memberIs(word.slice(1));
  return name ? named(name, value) : null;
}

/** Quotes a value that would otherwise be read as several words. @param {string} value */
const whole = (value) => (/\s|^"/.test(value) ? quote(value) : value);
/** Quotes a plain word that would otherwise be read as a filter. @param {string} word */
const plain = (word) => (meaning(word) || word.startsWith('"') ? quote(word) : word);
/** @param {string} value */
const quote = (value) => `"${value.replaceAll('"', '""')}"`;

/**
 * @param {Filter} filter
 * @returns {string} what to type to get this filter
 */
export function typed(filter) {
  const fields = Object.entries(TYPED).filter(([name]) => name !== "by");
  const parts = fields.filter(([, field]) => filter[field]).map(([name, field]) => `${name}:${whole(filter[field])}`);
  if (filter.member) parts.push(`@${whole(filter.member)}`);
  if (filter.priority) parts.push(`p>${Number(filter.priority) - 1}`);
  return [...parts, ...filter.text.split(/\s+/).map(plain)].filter(Boolean).join(" ");
}

/**
 * Normalises a text for comparison, without case and accents.
 * @param {string} text
 * @returns {string}
 */
export function fold(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}

/**
 * @param {string} text
 * @param {string} words
 * @returns {boolean} whether the text contains all words
 */
export function hasWords(text, words) {
  const folded = fold(text);
  return fold(words)
    .split(/\s+/)
    .every((word) => folded.includes(word));
}

/**
 * @param {Thread} thread
 * @param {Filter} filter
 * @param {Names} [names]
 * @returns {boolean}
 */
export function matches(thread, filter, { channelName = String, handle = String, lane = () => "" } = {}) {
  const { text, channel, member, repo, skill, state, priority } = filter;
  if (state && thread.state !== state) return false;
  if (filter.lane && lane(thread) !== filter.lane) return false;
  if (channel && !isNamed(thread.channel_id, channel, channelName)) return false;
  if (member && !isOf(thread, member, handle)) return false;
  if (repo && (thread.footprint?.repo ?? "").toLowerCase() !== repo.toLowerCase()) return false;
  if (skill && !thread.required_skills.includes(skill.toLowerCase())) return false;
  if (priority && !(thread.priority >= Number(priority))) return false;
  return text === "" || hasWords(thread.title, text);
}

/** @typedef {{op: string, input: Record<string, unknown>}} Asked operation with its input */

/**
 * Returns the request for the threads that match a filter, and possibly more.
 *
 * The server cannot filter by words or repositories, and by member it finds only the claims.
 *
 * @param {Filter} filter
 * @param {{channels: import("./types.js").Fields[], members: import("./types.js").Fields[]}} known
 * @returns {Asked | null} null if no field of the filter can be requested
 */
export function asked({ channel, member, state }, { channels, members }) {
  const of = only(channels.filter(({ id, name }) => channel && isNamed(id, channel, () => name)));
  const holder = only(members.filter(({ id, handle }) => member && isNamed(id, member, () => handle)));
  const inState = /^(open|in_review|closed|archived)$/.test(state) && { state };
  if (of) return { op: "list_threads", input: { channel_id: of.id, ...inState } };
  const input = { ...(holder && { assignee_id: holder.id }), ...inState };
  return holder || inState ? { op: "list_workspace_threads", input } : null;
}

/** Returns the only match, because one request cannot name several. @template T @param {T[]} all */
const only = (all) => (all.length === 1 ? all[0] : undefined);

/** @param {string} id @param {string} wanted @param {(id: string) => string} name */
const isNamed = (id, wanted, name) => id === wanted || fold(name(id)) === fold(wanted);

/** @param {Thread} thread @param {string} member @param {(id: string) => string} handle */
function isOf({ assignee_id, owner_id }, member, handle) {
  return [assignee_id, owner_id].some((id) => id !== null && isNamed(id, member, handle));
}

/**
 * @typedef {object} EventFilter
 * @property {Set<string>} kinds empty for all kinds
 * @property {string} thread
 * @property {string} channel
 * @property {string} member
 * @property {string} text
 */

/**
 * @param {LogEvent} event
 * @param {EventFilter} filter
 * @returns {boolean}
 */
export function matchesEvent({ kind, lsn, payload, message }, { kinds, thread, channel, member, text }) {
  const { $chain: chain, attribution } = payload;
  if (kinds.size && !kinds.has(kind)) return false;
  if (thread && chain.thread_id !== thread) return false;
  if (channel && chain.channel_id !== channel) return false;
  if (member && ![chain.member_id, attribution?.subject_id, attribution?.actor_id].includes(member)) return false;
  return text === "" || String(lsn) === text || hasWords(`${kind} ${message?.body ?? ""} ${payload.title ?? ""}`, text);
}
