// What a board or a log shows of all there is: from the query of an address, from typed words, and back.

/**
 * @typedef {object} Filter each empty if it filters nothing
 * @property {string} text words of a title, all of them
 * @property {string} channel an id, or a name
 * @property {string} member an id, or a handle: who holds it or is responsible
 * @property {string} repo
 * @property {string} skill
 * @property {string} state
 * @property {string} lane
 * @property {string} priority a least priority
 * @property {string} by how lanes are grouped
 */
/** @typedef {import("./types.js").Thread} Thread */
/** @typedef {import("./types.js").LogEvent} LogEvent */
/**
 * @typedef {object} Names what ids are called, as far as it is known
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
 * @returns {string} always the same for the same filter
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

/** What one can type before a colon, and the field that it is. @type {Record<string, keyof Filter>} */
const TYPED = {
  in: "channel",
  by: "member",
  repo: "repo",
  skill: "skill",
  state: "state",
  lane: "lane",
};

/** A word, or what stands in quotes, with what is before them; a quote within them is doubled. */
const WORD = /(?:(\w+:)|(@))?"((?:[^"]|"")*)"(?!\S)|\S+/g;

/**
 * Reads what was typed: `in:general in:"my team" @ada repo:acme/core skill:rust p>5`, and words.
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

/** @param {string} name with its colon @param {string} value @returns {Partial<Filter> | null} */
function named(name, value) {
  const key = name.slice(0, -1).toLowerCase();
  return Object.hasOwn(TYPED, key) ? { [TYPED[key]]: value } : null;
}

/** What a word is besides a word. @param {string} word @returns {Partial<Filter> | null} */
function meaning(word) {
  const [, name, value] = /^(\w+:)(.+)$/.exec(word) ?? [];
  const priority = /^p>(-?\d{1,3})$/.exec(word);
  if (priority) return { priority: String(Number(priority[1]) + 1) };
  if (/^@./.test(word)) return memberIs(word.slice(1));
  return name ? named(name, value) : null;
}

/** What has a space would be several words. @param {string} value */
const whole = (value) => (/\s|^"/.test(value) ? quote(value) : value);
/** A word that would be read as something else. @param {string} word */
const plain = (word) => (meaning(word) || word.startsWith('"') ? quote(word) : word);
/** @param {string} value */
const quote = (value) => `"${value.replaceAll('"', '""')}"`;

/**
 * @param {Filter} filter
 * @returns {string} what one would type for it
 */
export function typed(filter) {
  const fields = Object.entries(TYPED).filter(([name]) => name !== "by");
  const parts = fields.filter(([, field]) => filter[field]).map(([name, field]) => `${name}:${whole(filter[field])}`);
  if (filter.member) parts.push(`@${whole(filter.member)}`);
  if (filter.priority) parts.push(`p>${Number(filter.priority) - 1}`);
  return [...parts, ...filter.text.split(/\s+/).map(plain)].filter(Boolean).join(" ");
}

/**
 * A text as it is compared: case and accents do not count.
 * @param {string} text
 * @returns {string}
 */
export function fold(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}

/**
 * @param {string} text
 * @param {string} words
 * @returns {boolean} whether all words are in the text
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

/** @typedef {{op: string, input: Record<string, unknown>}} Asked an operation, and with what */

/**
 * How the service is asked for what a filter lets through, and maybe for more: it knows neither words nor repositories,
 * and of a member only what they hold.
 * @param {Filter} filter
 * @param {{channels: import("./types.js").Fields[], members: import("./types.js").Fields[]}} known
 * @returns {Asked | null} null if there is nothing to ask it for
 */
export function asked({ channel, member, state }, { channels, members }) {
  const of = only(channels.filter(({ id, name }) => channel && isNamed(id, channel, () => name)));
  const holder = only(members.filter(({ id, handle }) => member && isNamed(id, member, () => handle)));
  const inState = /^(open|in_review|closed|archived)$/.test(state) && { state };
  if (of) return { op: "list_threads", input: { channel_id: of.id, ...inState } };
  const input = { ...(holder && { assignee_id: holder.id }), ...inState };
  return holder || inState ? { op: "list_workspace_threads", input } : null;
}

/** Of several with one name the service cannot be asked at once. @template T @param {T[]} all */
const only = (all) => (all.length === 1 ? all[0] : undefined);

/** @param {string} id @param {string} wanted @param {(id: string) => string} name */
const isNamed = (id, wanted, name) => id === wanted || fold(name(id)) === fold(wanted);

/** @param {Thread} thread @param {string} member @param {(id: string) => string} handle */
function isOf({ assignee_id, owner_id }, member, handle) {
  return [assignee_id, owner_id].some((id) => id !== null && isNamed(id, member, handle));
}

/**
 * @typedef {object} EventFilter
 * @property {Set<string>} kinds none for all
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
