// The only way to call the service: an operation by its name, with its input as one object.
//
// Guarantees: method and path come from the table that the server generated; every failure is a `Problem`,
// including network failures; a failure says whether the change may have happened nevertheless. Not here:
// handling failures, retries, and interpreting answers.

import table from "../operations.js";

/**
 * @typedef {[method: string, path: string, capability: string, effect: string, places: {path?: string[],
 * query?: string[]}]} Row
 */
/**
 * @typedef {{body: any, lsn: number}} Answer `lsn`: position of the log (0: unknown).
 */
/**
 * @typedef {{status: number, lsn: number, date: string, sent: number, received: number}} Heard Data from the
 * head of a response.
 */
/**
 * @typedef {{token?: string, isBeside?: boolean, signal?: AbortSignal, head?: boolean}} Manner `isBeside`:
 * the token is sent together with the session, and must belong to the same member.
 */
/** @typedef {(operation: string, input?: Record<string, unknown>, manner?: Manner) => Promise<Answer>} Ask */

/** @type {Record<string, Row>} What the service offers: one row per operation, by name. */
export const operations = table;

/**
 * Base URL of the paths in the table; it contains any prefix of a proxy, as the URL of this file does.
 */
const BASE = new URL("../../../../", import.meta.url);
/** The URL at which this browser reaches the service. */
export const service = BASE.href.replace(/\/$/, "");

/** Maximum milliseconds to wait for a response; the service's own limits are shorter. */
const PATIENCE = 60_000;

/** Returns whether a failed request may succeed later. @param {{status?: number}} problem */
export const mayPass = ({ status = 0 }) => status < 400 || status >= 500 || status === 401 || status === 429;

/**
 * A refusal by the service, or a failure to reach it. `members` are the extra members of the problem
 * document.
 */
export class Problem extends Error {
  /**
   * @param {{code: string, status: number, detail: string, members?: Record<string, any>, isUnknown?: boolean, operation: string}} told
   */
  constructor({ code, status, detail, members = {}, isUnknown = false, operation }) {
    super(`${operation}: ${code}`);
    this.name = "Problem";
    this.code = code;
    this.status = status;
    this.detail = detail;
    /** @type {Record<string, any>} */
    this.members = members;
    this.operation = operation;
    /** Whether the change may have happened although no answer confirmed it. */
    this.isUnknown = isUnknown;
  }
}

/**
 * Returns the problem of an operation for which the session lacks the capability.
 *
 * @param {string} operation
 * @param {string} capability
 */
export function lacking(operation, capability) {
  const members = { required_capability: capability };
  return new Problem({ code: "missing-capability", status: 403, detail: capability, members, operation });
}

/**
 * Creates `ask`.
 *
 * @param {{workspace: () => string | null, heard?: (heard: Heard) => void, isEnded?: () => boolean}} setting
 * `workspace` returns the default for the workspace in a path; `heard` receives the response head of each
 * request made with the session; `isEnded`: the session has ended, and no request is sent.
 * @returns {Ask}
 */
export function createAsk({ workspace, heard = () => {}, isEnded = () => false }) {
  return async (operation, input = {}, manner = {}) => {
    const row = operations[operation];
    if (!row) throw new Problem({ code: "unknown-operation", status: 0, detail: operation, operation });
    if (isEnded()) throw new Problem({ code: "unauthenticated", status: 401, detail: "", operation });
    const { url, body } = address(row, withWorkspace(row, input, workspace()));
    const init = request(row, body, manner);
    const sent = Date.now();
    const changes = row[3] !== "read" && row[3] !== "wait";
    let response;
    try {
      response = await fetch(url, init);
    } catch (cause) {
      throw unreached(operation, cause, changes, manner.signal);
    }
    const head = {
      status: response.status,
      lsn: Number(response.headers.get("svc-room-lsn") ?? 0) || 0,
      date: response.headers.get("date") ?? "",
      sent,
      received: Date.now(),
    };
    if (!manner.token) heard(head);
    const text = await readText(response, operation, changes);
    if (!response.ok) throw refused(operation, response, text, changes, Boolean(manner.token));
    return { body: parsed(text, operation, changes), lsn: head.lsn };
  };
}

/**
 * Returns the current HTML page of the server; the browser revalidates its cached copy.
 *
 * @returns {Promise<string>}
 */
export async function readPage() {
  const response = await fetch(new URL("ui/", BASE), { cache: "no-cache", signal: AbortSignal.timeout(PATIENCE) });
  if (!response.ok) throw new Error(String(response.status));
  return response.text();
}

/**
 * Returns the URL of an operation whose response is not read here, such as the socket or an external sign-in.
 *
 * @param {string} operation
 * @param {Record<string, unknown>} [input]
 */
export function addressOf(operation, input = {}) {
  const row = operations[operation];
  return row ? address(row, input).url : null;
}

/**
 * @param {Row} row
 * @param {Record<string, unknown>} input
 * @param {string | null} workspaceId
 */
function withWorkspace(row, input, workspaceId) {
  const wants = (row[4].path ?? []).includes("workspace_id") && input.workspace_id === undefined;
  return wants && workspaceId ? { ...input, workspace_id: workspaceId } : input;
}

/**
 * Distributes an input over path, query and body.
 *
 * @param {Row} row
 * @param {Record<string, unknown>} input
 */
function address(row, input) {
  const [method, path, , , places] = row;
  const rest = { ...input };
  const filled = path.replace(/\{(\w+)\}/g, (_, name) => {
    const value = String(rest[name] ?? "");
    delete rest[name];
    // An empty segment or one of dots would change the path.
    return /^\.{0,2}$/.test(value) ? "-" : encodeURIComponent(value);
  });
  const url = new URL(filled.replace(/^\//, ""), BASE);
  const named = new Set(places.query ?? []);
  const hasBody = method !== "GET" && method !== "HEAD";
  for (const [name, value] of Object.entries(rest)) {
    if (hasBody && !named.has(name)) continue;
    delete rest[name];
    if (value !== undefined && value !== null) url.searchParams.set(name, String(value));
  }
  return { url, body: hasBody ? rest : null };
}

/**
 * @param {Row} row
 * @param {Record<string, unknown> | null} body
 * @param {Manner} manner
 * @returns {RequestInit}
 */
function request(row, body, { token, isBeside, signal, head }) {
  const limit = AbortSignal.timeout(PATIENCE);
  /** @type {Record<string, string>} */
  const headers = { accept: "application/json" };
  const hasContent = body && (row[0] !== "DELETE" || Object.keys(body).length > 0);
  if (hasContent) headers["content-type"] = "application/json";
  if (token) headers.authorization = `Bearer ${token}`;
  return {
    method: head ? "HEAD" : row[0],
    headers,
    body: hasContent ? JSON.stringify(body) : undefined,
    // The server refuses a token beside the cookie of another member.
    credentials: token && !isBeside ? "omit" : "same-origin",
    cache: "no-store",
    redirect: "error",
    signal: signal ? AbortSignal.any([signal, limit]) : limit,
  };
}

/**
 * @param {Response} response
 * @param {string} operation
 * @param {boolean} changes
 */
async function readText(response, operation, changes) {
  try {
    return await response.text();
  } catch (cause) {
    throw unreached(operation, cause, changes && response.ok);
  }
}

/**
 * @param {string} text
 * @param {string} operation
 * @param {boolean} changes
 */
function parsed(text, operation, changes) {
  if (text === "") return null;
  try {
    return JSON.parse(text);
  } catch {
    throw new Problem({ code: "unreadable", status: 200, detail: "", operation, isUnknown: changes });
  }
}

/**
 * @param {string} operation
 * @param {unknown} cause
 * @param {boolean} changes
 * @param {AbortSignal} [signal]
 */
function unreached(operation, cause, changes, signal) {
  const name = cause instanceof Error ? cause.name : "";
  const code = signal?.aborted ? "stopped" : name === "TimeoutError" ? "no-answer" : "unreachable";
  return new Problem({ code, status: 0, detail: "", operation, isUnknown: changes });
}

/**
 * @param {string} operation
 * @param {Response} response
 * @param {string} text
 * @param {boolean} changes
 * @param {boolean} byToken True: a 401 concerns the token, not the session.
 */
function refused(operation, response, text, changes, byToken) {
  /** @type {Record<string, any>} */
  let told = {};
  try {
    const read = JSON.parse(text);
    if (read && typeof read === "object") told = read;
  } catch {
    // A proxy may answer with its own page; only the status is usable then.
  }
  const { type, title: _title, status: _status, detail, ...members } = told;
  const known = typeof type === "string" ? type.split("/").pop() : "";
  const code = known || `http-${response.status}`;
  if (byToken && response.status === 401) members.by_token = true;
  const retryAfter = Number(response.headers.get("retry-after") ?? "");
  if (retryAfter > 0 && members.retry_after_secs === undefined) members.retry_after_secs = retryAfter;
  // A 502 or 504 without a problem document of the service does not say whether the change happened.
  const isUnknown = changes && (code === "outcome-unknown" || (!known && response.status >= 500));
  return new Problem({
    code,
    status: response.status,
    detail: String(detail ?? ""),
    members,
    isUnknown,
    operation,
  });
}
