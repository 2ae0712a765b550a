// Verification of the log in the browser: a worker recomputes the log, and the findings are stored.
//
// Guarantees: a log that was found broken, rewritten or rolled back is reported as such, in all tabs and at
// later visits, until a later run that reads as much of the log finds it whole; the verified head is stored,
// and a history that differs from the verified one is never stored unasked. Not here: the rules
// (pure/verify.js), reading (worker/verify.js), and rendering.

import { ownScript } from "./net/script.js";
import { alarmOf, pinOf } from "./state/seen.js";

/** @typedef {import("./pure/verify.js").Report} Report */
/** @typedef {import("./pure/verify.js").Pin} Pin */
/** @typedef {ReturnType<typeof createProof>} Proof */
/**
 * @typedef {{
 *   state: "none" | "running" | "whole" | "part" | "broken" | "failed",
 *   checked: number,
 *   withheld: number,
 *   upTo: number,
 *   head: number,
 *   problem: {code: string, detail: string} | null,
 * }} Run Progress of the last run.
 */
/**
 * @typedef {{report: Report, pin: Pin | null, proved: Pin | null, at: number}} Found Findings of the last
 * finished run; `pin` is the head that was stored before it, `proved` the head that could be stored now.
 */
/**
 * @typedef {{state: "broken" | "rewritten", lsn: number, report: Pick<Report, "broken" | "pinned">}} Alarm
 * @typedef {Alarm & {isWhole: boolean}} Kept `isWhole`: the session that found it may read the whole log.
 */

/** @type {Run} */
const NONE = { state: "none", checked: 0, withheld: 0, upTo: 0, head: 0, problem: null };
/** Results after which the head is stored without asking the user. */
const TRUSTED = new Set(["new", "same", "pruned"]);

/**
 * @param {{
 *   workspaceId: string,
 *   isWhole: () => boolean,
 *   changed: () => void,
 * }} setting `isWhole`: whether the session may read the whole log.
 */
export function createProof({ workspaceId, isWhole, changed }) {
  const pins = pinOf(workspaceId);
  const kept = alarmOf(workspaceId);
  let remembered = kept.get();
  const unwatch = kept.watch(() => {
    remembered = kept.get();
    changed();
  });
  /** @type {Worker | null} */
  let worker = null;
  let run = NONE;
  /** @type {Found | null} */
  let found = null;

  function start() {
    if (worker) return;
    const pin = pins.get();
    const address = ownScript(new URL("./worker/verify.js", import.meta.url));
    const begun = new Worker(address, { type: "module" });
    worker = begun;
    run = { ...NONE, state: "running" };
    begun.onmessage = ({ data }) => worker === begun && take(data, pin);
    begun.onerror = () => worker === begun && end({ ...run, state: "failed", problem: UNLOADED });
    begun.postMessage({ workspace_id: workspaceId, whole: isWhole(), pin });
    changed();
  }

  /** @param {import("./worker/verify.js").Told} told @param {Pin | null} pin */
  function take({ state, checked, withheld, upTo, head, report, pin: proved = null, problem }, pin) {
    const now = { state, checked, withheld, upTo, head, problem: problem ?? null };
    if (state === "running") {
      run = now;
      return changed();
    }
    if (report) {
      found = { report, pin, proved, at: Date.now() };
      if (proved && TRUSTED.has(report.pinned)) pins.set(proved);
      keep(alarmIn(found));
    }
    end(now);
  }

  /**
   * Stores or clears the alarm. A session that sees only part of the log cannot replace one of the whole log.
   *
   * @param {Alarm | null} alarm
   */
  function keep(alarm) {
    if (remembered?.isWhole && !isWhole()) return;
    remembered = alarm && { ...alarm, isWhole: isWhole() };
    kept.set(remembered);
  }

  /** @param {Run} now */
  function end(now) {
    worker?.terminate();
    worker = null;
    run = now;
    changed();
  }

  return {
    start,
    /** Stops the current run; the findings of the previous run stay. */
    stop() {
      if (worker) end(found ? ofFound(found) : NONE);
    },
    run: () => run,
    found: () => found,
    /** Accepts the log as found by the last run as the baseline for later runs. */
    trust() {
      if (!found?.proved) return;
      pins.set(found.proved);
      found = { ...found, pin: found.proved, report: { ...found.report, pinned: "same" } };
      keep(alarmIn(found));
      changed();
    },
    /**
     * Returns the alarm that every screen shows: where the log is broken, or how the verified history
     * changed.
     *
     * @returns {Alarm | null}
     */
    alarm: () => (found && alarmIn(found)) ?? remembered,
    close() {
      unwatch();
      worker?.terminate();
      worker = null;
    },
  };
}

/** @param {Found} found @returns {Alarm | null} */
function alarmIn({ report: { broken, pinned }, pin }) {
  const report = { broken, pinned };
  if (broken) return { state: "broken", lsn: broken.lsn, report };
  const isOther = pinned === "rewritten" || pinned === "rolled-back";
  return isOther && pin ? { state: "rewritten", lsn: pin.lsn, report } : null;
}

/** The file of the worker could not be loaded. */
const UNLOADED = { code: "unreadable", detail: "" };

/** @param {Found} found @returns {Run} */
function ofFound({ report }) {
  const { state, checked, withheld, head } = report;
  return { state, checked, withheld, upTo: head.lsn, head: head.lsn, problem: null };
}
