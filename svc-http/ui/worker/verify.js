// Worker that verifies the log, so that the page stays responsive.
//
// Guarantees: it reads pages of 500 positions, two at a time, and keeps only counts and the last hash; it
// reports progress at most four times a second; the page stops it by terminating the worker. Not here: the
// rules of verification (pure/verify.js).

import { Problem, createAsk } from "../net/ask.js";
import { finish, newRun, pinOf, take } from "../pure/verify.js";

/** @typedef {import("../pure/verify.js").Run} Run */
/** @typedef {import("../pure/verify.js").Report} Report */
/** @typedef {import("../pure/types.js").LogEvent} LogEvent */
/**
 * @typedef {{workspace_id: string, whole: boolean, pin: import("../pure/verify.js").Pin | null}} Start
 * Message from the page that starts the worker.
 */
/**
 * @typedef {object} Told Message from the worker to the page.
 * @property {"running" | "whole" | "part" | "broken" | "failed"} state
 * @property {number} checked
 * @property {number} withheld
 * @property {number} upTo Last position that was verified.
 * @property {number} head Last position of the log.
 * @property {Report} [report] Result; only in the last message.
 * @property {import("../pure/verify.js").Pin | null} [pin] Head to store; only in the last message.
 * @property {{code: string, detail: string}} [problem] Why the log could not be read.
 */

const PAGE = 500;
const TELL_EVERY_MS = 250;
/** Maximum attempts, in case the log is pruned during a run. */
const ROUNDS_MAX = 3;

/**
 * @param {ReturnType<typeof createAsk>} ask
 * @param {boolean} whole
 * @param {number} from
 * @param {number} to
 * @returns {Promise<LogEvent[]>} the events after `from`, up to `to`
 */
export async function readPart(ask, whole, from, to) {
  const events = [];
  for (let after = from; after < to;) {
    const limit = Math.min(PAGE, to - after);
    const { body } = whole
      ? await ask("catch_up_events", { after_lsn: after, limit })
      : await ask("list_events", { after_id: after, limit });
    events.push(...body.items.filter((/** @type {LogEvent} */ event) => event.lsn <= to));
    const reached = whole ? body.after_lsn : body.after_id;
    // A page that does not advance is the last one; the run reports missing events.
    if (reached <= after) break;
    after = reached;
  }
  return events;
}

/**
 * Verifies the log up to its current head.
 *
 * @param {ReturnType<typeof createAsk>} ask
 * @param {Start} start
 * @param {(run: Run) => void} tell
 * @returns {Promise<Report>}
 */
export async function verifyLog(ask, { workspace_id, whole, pin }, tell) {
  for (let round = 1; ; round += 1) {
    const { floor, head } = (await ask("get_room", {})).body;
    try {
      const report = finish(await walk(ask, newRun({ workspace_id, whole, floor, head, pin }), tell));
      // A log that was pruned during the run now begins at a later position.
      const isPruned = report.broken !== null && (await ask("get_room", {})).body.floor !== floor;
      if (!isPruned || round === ROUNDS_MAX) return report;
    } catch (problem) {
      if (!(problem instanceof Problem) || problem.code !== "must_refetch" || round === ROUNDS_MAX) throw problem;
    }
  }
}

/**
 * @param {ReturnType<typeof createAsk>} ask
 * @param {Run} begun
 * @param {(run: Run) => void} tell
 * @returns {Promise<Run>}
 */
async function walk(ask, begun, tell) {
  let run = begun;
  const { whole, floor, head } = run;
  const part = (/** @type {number} */ from) => {
    const reading = readPart(ask, whole, from, Math.min(from + PAGE, head.lsn));
    // The promise is awaited later; avoid an unhandled rejection until then.
    reading.catch(() => {});
    return reading;
  };
  let from = floor - 1;
  let next = part(from);
  while (from < head.lsn && !run.broken) {
    const upTo = Math.min(from + PAGE, head.lsn);
    const ahead = upTo < head.lsn ? part(upTo) : null;
    run = await take(run, await next, upTo);
    tell(run);
    if (ahead) next = ahead;
    from = upTo;
  }
  return run;
}

/**
 * @param {(told: Told) => void} post
 * @param {ReturnType<typeof createAsk>} ask
 * @param {Start} start
 */
export async function serve(post, ask, start) {
  let [checked, withheld, upTo, head, told] = [0, 0, 0, 0, -TELL_EVERY_MS];
  const tell = (/** @type {Run} */ run) => {
    ({ checked, withheld, lsn: upTo } = run);
    head = run.head.lsn;
    if (performance.now() - told < TELL_EVERY_MS) return;
    told = performance.now();
    post({ state: "running", checked, withheld, upTo, head });
  };
  try {
    const report = await verifyLog(ask, start, tell);
    const pin = pinOf(report, new Date().toISOString());
    post({ state: report.state, checked: report.checked, withheld: report.withheld, upTo, head: report.head.lsn, report, pin });
  } catch (failure) {
    const problem = failure instanceof Problem ? failure : { code: "unreadable", detail: String(failure) };
    post({ state: "failed", checked, withheld, upTo, head, problem: { code: problem.code, detail: problem.detail } });
  }
}

/** @type {any} */
const scope = globalThis;
scope.onmessage = (/** @type {{data: Start}} */ { data }) => {
  const post = (/** @type {Told} */ told) => scope.postMessage(told);
  void serve(post, createAsk({ workspace: () => data.workspace_id }), data);
};
