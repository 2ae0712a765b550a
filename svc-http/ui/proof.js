// What the browser itself has proved of the log: a worker recomputes it beside the page, and what it found
// stays known as long as the session does.
//
// Promises: a log that was found broken, rewritten or rolled back stays so until a later run finds it whole;
// the head that was proved is remembered, and history that is not what was proved is never remembered
// unasked. Leaves out: the rules (pure/verify.js), reading (worker/verify.js), and how it looks.

import { ownScript } from "./net/script.js";
import { pinOf } from "./state/seen.js";

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
 * }} Run How the last run stands.
 */
/**
 * @typedef {{report: Report, pin: Pin | null, proved: Pin | null, at: number}} Found What the last run that came to
 * an end has found; `pin` is what was remembered before it, `proved` what could be remembered now.
 */

/** @type {Run} */
const NONE = { state: "none", checked: 0, withheld: 0, upTo: 0, head: 0, problem: null };
/** What may be remembered without anybody saying so. */
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
    }
    end(now);
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
    /** Ends a run that is under way; what was found before it stays. */
    stop() {
      if (worker) end(found ? ofFound(found) : NONE);
    },
    run: () => run,
    found: () => found,
    /** From now on the log as it was found is what later ones are held against. */
    trust() {
      if (!found?.proved) return;
      pins.set(found.proved);
      found = { ...found, pin: found.proved, report: { ...found.report, pinned: "same" } };
      changed();
    },
    /**
     * What has to be seen everywhere: where the log is broken, or what became of the history that was proved.
     *
     * @returns {{state: "broken" | "rewritten", lsn: number, report: Report, pin: Pin | null} | null}
     */
    alarm() {
      if (!found) return null;
      const { report, pin } = found;
      if (report.broken) return { state: "broken", lsn: report.broken.lsn, report, pin };
      const isOther = report.pinned === "rewritten" || report.pinned === "rolled-back";
      return isOther && pin ? { state: "rewritten", lsn: pin.lsn, report, pin } : null;
    },
    close() {
      worker?.terminate();
      worker = null;
    },
  };
}

/** The worker's file was not to be had. */
const UNLOADED = { code: "unreadable", detail: "" };

/** @param {Found} found @returns {Run} */
function ofFound({ report }) {
  const { state, checked, withheld, head } = report;
  return { state, checked, withheld, upTo: head.lsn, head: head.lsn, problem: null };
}
