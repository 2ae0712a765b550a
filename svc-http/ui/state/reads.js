// Reads entities and lists that are shown but unknown or stale.
//
// Guarantees: an entity is read at most once a second, a list at most every 2 s, and 4 reads run at a time; a
// refused read is not repeated until something about its key changes; a network failure is retried with
// growing pauses. Not here: what is shown, which its callers report.

import { lacking, mayPass } from "../net/ask.js";
import { idOf } from "../pure/merge.js";
import { LISTINGS, READINGS, VIA, WHOLE, inputOf } from "./entities.js";
import { PAGE, PAGES_MAX, createPages } from "./pages.js";
import { ALL } from "./store.js";

/** @typedef {import("../net/ask.js").Problem} Problem */
/** @typedef {ReturnType<typeof createReads>} Reads */

const AT_ONCE = 4;
const ENTITY_EVERY = 1_000;
const LIST_EVERY = 2_000;
const RETRY = { first: 1_000, most: 30_000 };
/** Failures after which a read is reported; fewer are usually over before the user could read about them. */
const FAILURES_TOLD = 2;
const STANDINGS_MOST = 5_000;

/**
 * @typedef {{state: "waiting" | "reading" | "known" | "missing" | "refused", next: number, failures: number,
 * problem?: Problem}} Standing `next`: the earliest time of the next read.
 */

/**
 * @param {{
 *   store: import("./store.js").Store,
 *   ask: import("../net/ask.js").Ask,
 *   lacks: (operation: string) => string | null,
 * }} setting `lacks`: returns the capability that the session lacks for an operation.
 */
export function createReads({ store, ask, lacks }) {
  /** Number of callers that want a key. @type {Map<string, number>} */
  const wanted = new Map();
  /** @type {Map<string, Standing>} */
  const standings = new Map();
  /** @type {Set<string>} */
  const queue = new Set();
  /** @type {Set<string>} */
  const reading = new Set();
  const pages = createPages(ask);
  /** Keys whose reads fail repeatedly, and why. @type {Map<string, Problem>} */
  const failing = new Map();
  let isClosed = false;

  /** Drops the standings of keys that no caller wants. */
  function tidy() {
    if (standings.size < STANDINGS_MOST) return;
    for (const [key, { state }] of standings)
      if (!wanted.has(key) && state !== "reading") standings.delete(key);
  }

  /** @param {string} key @returns {Standing} */
  function standing(key) {
    tidy();
    const found = standings.get(key) ?? { state: /** @type {const} */ ("waiting"), next: 0, failures: 0 };
    standings.set(key, found);
    return found;
  }

  /** @param {string} key Key of an entity (`kind/id`), or of a list (`list/name`). */
  function isNeeded(key) {
    const [kind = "", id = ""] = split(key);
    const found = standings.get(key);
    if (kind === "list") return found === undefined || found.state === "waiting";
    const known = store.get(kind, id);
    if (known ? !known.stale : found?.state === "missing") return false;
    return found?.state !== "refused" && found?.state !== "reading";
  }

  /** @param {string} key */
  function enqueue(key) {
    const via = VIA[split(key)[0] ?? ""];
    const entity = via && store.get(...split(key));
    const read = via && entity ? via(entity) : key;
    if (via && !entity) return;
    if (read !== key) standings.set(read, { ...standing(read), state: "waiting" });
    const reading = read.startsWith("list/") ? LISTINGS[split(read)[1]] : READINGS[split(read)[0]];
    if (!reading || isClosed) return;
    const capability = lacks(reading.op);
    if (capability) {
      Object.assign(standing(read), { state: "refused", problem: lacking(reading.op, capability) });
      store.touch([read]);
      return;
    }
    queue.add(read);
    pump();
  }

  function pump() {
    for (const key of queue) {
      if (reading.size >= AT_ONCE) return;
      // With two concurrent reads the older answer could arrive last, so read again after this one.
      if (reading.has(key)) continue;
      const rest = standing(key).next - performance.now();
      if (rest > 0) {
        later(key, rest);
        continue;
      }
      queue.delete(key);
      void run(key);
    }
  }

  const timers = /** @type {Map<string, ReturnType<typeof setTimeout>>} */ (new Map());
  function later(/** @type {string} */ key, /** @type {number} */ ms) {
    clearTimeout(timers.get(key));
    const look = () => {
      timers.delete(key);
      if (queue.has(key) || (wanted.has(key) && standing(key).state === "waiting")) enqueue(key);
    };
    timers.set(key, setTimeout(look, ms));
  }

  /** @param {string} key */
  async function run(key) {
    const now = standing(key);
    const next = performance.now() + (key.startsWith("list/") ? LIST_EVERY : ENTITY_EVERY);
    Object.assign(now, { state: "reading", next });
    reading.add(key);
    const since = Math.max(store.lsn(), store.get(...split(key))?.of ?? 0);
    try {
      await (key.startsWith("list/") ? readList(split(key)[1]) : readEntity(...split(key)));
      failing.delete(key);
      if (now.state === "reading") Object.assign(now, { state: "known", failures: 0, problem: undefined });
    } catch (problem) {
      failed(key, now, /** @type {Problem} */ (problem), since);
    } finally {
      reading.delete(key);
      store.touch([key]);
      pump();
    }
  }

  /**
   * @param {string} key
   * @param {Standing} now
   * @param {Problem} problem
   * @param {number} since Data that arrived after this position is kept.
   */
  function failed(key, now, problem, since) {
    now.problem = problem;
    failing.delete(key);
    const [kind, id] = split(key);
    if (problem.status === 404) {
      store.missing(kind, id, since);
      now.state = store.get(kind, id) ? "known" : "missing";
    } else if (!mayPass(problem)) {
      now.state = "refused";
    } else {
      const failures = now.failures + 1;
      const rest = Math.min(RETRY.most, RETRY.first * 2 ** failures);
      Object.assign(now, { state: "waiting", failures, next: performance.now() + rest });
      if (failures >= FAILURES_TOLD) failing.set(key, problem);
      later(key, rest);
    }
  }

  /** @param {string} kind @param {string} id */
  async function readEntity(kind, id) {
    const { op, by, take, hasPages } = /** @type {import("./entities.js").Reading} */ (READINGS[kind]);
    const since = store.lsn();
    const { body, lsn } = hasPages
      ? await pages(op, { [by]: id }, PAGE * PAGES_MAX)
      : await ask(op, { [by]: id });
    if (isClosed) return;
    // An answer without a position is treated as of the position before the request.
    for (const put of take ? take(body, id) : [{ kind, fields: body }])
      store.put(put.kind, put.fields, lsn || since);
  }

  /** @param {string} name */
  async function readList(name) {
    const listing = /** @type {import("./entities.js").Listing} */ (LISTINGS[name]);
    const { op, kind, id, most, rowsOf, told = Infinity } = listing;
    const since = store.lsn();
    const input = await inputOf(listing, ask);
    const { body, lsn: answered } = await pages(op, input, most, rowsOf);
    const lsn = answered || since;
    if (isClosed || lsn < (store.get("list", name)?.of ?? 0)) return;
    /** @type {any[]} */
    const rows = id ? body.items.map((/** @type {any} */ row) => ({ ...row, id: id(row) })) : body.items;
    store.put(kind, rows, lsn);
    // If only the newest rows were read, entities older than the last of them are not covered.
    const from = body.isWhole ? 0 : input.newest_first ? (rows.at(-1)?.lsn ?? 0) : Infinity;
    if (WHOLE.has(name)) dropOthers(kind, new Set(rows.map((row) => idOf(kind, row))), lsn, from);
    store.put("list", { id: name, isWhole: body.isWhole && rows.length < told, count: rows.length }, lsn);
  }

  /**
   * Removes entities that a complete list lacks. No event may report their end: presence has no events.
   *
   * @param {string} kind
   * @param {Set<string>} ids
   * @param {number} lsn
   * @param {number} from Rows below this position are kept.
   */
  function dropOthers(kind, ids, lsn, from) {
    for (const { id, of, lsn: at = 0, kind: sort } of store.all(kind))
      // Direct messages have a list of their own.
      if (of <= lsn && at >= from && !ids.has(id) && (kind !== "channel" || sort !== "dm")) store.missing(kind, id, lsn);
  }

  const unwatch = store.watch(({ dirty, gone, lists }) => {
    for (const key of dirty) {
      if (!wanted.has(key)) continue;
      // Do not read an entity that an event has ended.
      if (gone.has(key)) standing(key).state = "missing";
      const found = standings.get(key);
      if (found?.state === "refused" && store.get(...split(key))?.stale) found.state = "waiting";
      if (isNeeded(key)) enqueue(key);
    }
    // The service is reachable again: retry failed reads immediately.
    for (const key of dirty.has("live/heard") ? failing.keys() : []) {
      standing(key).next = 0;
      if (wanted.has(key)) enqueue(key);
    }
    // Missing entities may be visible now.
    if (lists.has(ALL))
      for (const [key, found] of standings) {
        if (found.state !== "missing") continue;
        found.state = "waiting";
        if (wanted.has(key)) enqueue(key);
      }
    for (const name of lists) again(`list/${name}`);
  });

  /** @param {string} key */
  function again(key) {
    const found = standings.get(key);
    if (!wanted.has(key) || found?.state === "refused") return;
    if (found && found.state !== "reading") found.state = "waiting";
    enqueue(key);
  }

  /** @param {string} key */
  function unwant(key) {
    const left = (wanted.get(key) ?? 1) - 1;
    if (left > 0) wanted.set(key, left);
    else wanted.delete(key);
  }

  return {
    /**
     * Declares the keys that a caller shows; each call of `set` replaces the previous keys.
     *
     * @returns {{set: (keys: Iterable<string>) => void, close: () => void}}
     */
    wish() {
      /** @type {Set<string>} */
      let keys = new Set();
      /** @param {Iterable<string>} next */
      const set = (next) => {
        const now = new Set(next);
        for (const key of now) {
          if (keys.has(key)) continue;
          wanted.set(key, (wanted.get(key) ?? 0) + 1);
          if (isNeeded(key)) enqueue(key);
        }
        for (const key of keys) if (!now.has(key)) unwant(key);
        keys = now;
      };
      return { set, close: () => set([]) };
    },
    again,
    /** Reads an entity and all wanted data about it again. @param {string} key */
    againOf(key) {
      const id = split(key)[1];
      wanted.set(key, (wanted.get(key) ?? 0) + 1);
      for (const one of wanted.keys()) if (split(one)[1] === id) again(one);
      unwant(key);
    },
    /** Returns the state of a key, with the problem if it was refused. @param {string} key */
    standing: (key) => standings.get(key),
    /** Returns why something that is shown cannot be read at the moment. @returns {Problem | null} */
    trouble() {
      for (const [key, problem] of failing) if (wanted.has(key)) return problem;
      return null;
    },
    isWanted: (/** @type {string} */ key) => wanted.has(key),
    pages,
    close() {
      isClosed = true;
      unwatch();
      queue.clear();
    },
  };
}

/** @param {string} key @returns {[string, string]} */
function split(key) {
  const at = key.indexOf("/");
  return [key.slice(0, at), key.slice(at + 1)];
}
