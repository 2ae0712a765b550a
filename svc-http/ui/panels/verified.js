// Verification of the log: this browser's proof, the head that it proved before, and the server's report.
//
// Guarantees: counts and the first broken event are available as text and as attributes; only a press accepts
// a history that differs from the proved one. Not here: the proof (proof.js).

import { disable, whyNot } from "../act.js";
import { pinned, proof as say, verified as found } from "../strings/en.js";
import { hrefTo } from "../names.js";
import { showProblem } from "../reading.js";
import { button, h, link, setAttr, setChildren, setText, show } from "../view/node.js";

/** @typedef {import("../world.js").World} World */

/** @param {World} world */
export function openVerified(world) {
  const { proof } = world;
  const state = h("span");
  const bar = h("progress.bar", { max: 1, "aria-hidden": "true" });
  const pin = h("p.small");
  const newer = h("p.quiet.small");
  const lacks = world.lacks("catch_up_events");
  const partly = h("p.quiet.small", { hidden: lacks === null }, lacks ? say.partly(lacks) : "");
  const problem = h("p.problem", { hidden: true });
  const again = button(say.again, () => proof.start());
  const trust = button(say.trust, () => proof.trust(), { hidden: true });
  const trustHint = h("p.quiet.small", { hidden: true }, say.trustHint);
  const server = serverWord(world);
  const toEvent = h("p", { hidden: true });
  const root = h(
    "details.panel.verified",
    { open: matchMedia("(min-width: 1000px)").matches, "aria-label": say.title },
    h("summary", h("h2", state)),
    h(
      "div.stack.tight.panel-body",
      h("p.quiet.small", say.here),
      bar,
      toEvent,
      pin,
      newer,
      partly,
      problem,
      trustHint,
      h("div.row", again, trust),
    ),
    server.node,
  );

  function showRun() {
    const run = proof.run();
    const isRunning = run.state === "running";
    const alarm = isRunning ? null : proof.alarm();
    setAttr(root, "data-verify", alarm?.state ?? STATES[run.state]);
    setAttr(root, "data-broken", alarm?.state === "broken" ? alarm.lsn : null);
    setAttr(root, "data-checked", run.checked);
    setAttr(root, "data-withheld", run.withheld);
    showState(run, alarm);
    show(bar, isRunning);
    setAttr(bar, "value", run.head > 0 ? (run.upTo / run.head).toFixed(2) : null);
    show(again, !isRunning);
    showProblem(world, problem, run.problem && { ...run.problem, status: 0 });
  }

  let drawn = "";
  /** @param {import("../proof.js").Run} run @param {ReturnType<typeof proof.alarm>} alarm */
  function showState(run, alarm) {
    const broken = alarm?.report.broken ?? null;
    const text =
      alarm?.state === "rewritten" || (alarm && run.state !== "failed")
        ? alarmText(alarm)
        : found[run.state]({ ...run, broken });
    if (drawn === text) return;
    drawn = text;
    const isGood = run.state === "whole" || run.state === "part";
    setText(state, text);
    setAttr(state, "data-tone", alarm ? "bad" : isGood ? "ok" : null);
    const href = broken ? hrefTo("log", {}, `#${broken.lsn}`) : null;
    show(toEvent, href !== null);
    setChildren(toEvent, [href ? link(href, {}, say.toEvent) : null]);
  }

  /**
   * Draws the state of the head that was proved before, or the state of the current history if it differs.
   */
  function showPin() {
    const last = proof.run().state === "running" ? null : proof.found();
    const was = last?.report.pinned ?? null;
    setAttr(root, "data-pin", was);
    const text = last ? pinText(last) : "";
    show(pin, text !== "");
    setText(pin, text);
    const canTrust = (was === "rewritten" || was === "rolled-back") && Boolean(last?.proved);
    show(trust, canTrust);
    show(trustHint, canTrust);
    const since = last ? world.store.lsn() - last.report.head.lsn : 0;
    show(newer, since > 0);
    setText(newer, since > 0 ? say.newer(since) : "");
  }

  return {
    root,
    show() {
      showRun();
      showPin();
      server.show();
    },
  };
}

/** Counts for the sentence about a broken log, which mentions none. */
const NOTHING = { checked: 0, withheld: 0, upTo: 0, head: 0 };

/** @param {import("../proof.js").Alarm} alarm */
const alarmText = ({ state, lsn, report: { broken, pinned: was } }) =>
  state === "broken" ? found.broken({ ...NOTHING, broken }) : pinned[was](lsn);

/**
 * Fills the alarm about the log that other screens show.
 *
 * @param {HTMLElement} node
 * @param {import("../proof.js").Alarm} alarm
 */
export function fillAlarm(node, alarm) {
  const href = hrefTo("log", {}, `#${alarm.lsn}`) ?? "";
  setChildren(node, [alarmText(alarm), " ", link(href, {}, say.toLog)]);
}

/** @param {import("../proof.js").Found} last */
function pinText({ report, pin, proved }) {
  const { pinned: was, state, checked, withheld, head, broken } = report;
  if (was === "new") return proved ? say.remembered(proved.lsn) : pinned.new(0);
  if (was === "withheld" && broken) return "";
  if (was === "rewritten" || was === "rolled-back")
    return found[state]({ checked, withheld, upTo: head.lsn, head: head.lsn, broken });
  return pinned[was](pin?.lsn ?? 0);
}

/**
 * Values of `data-verify`. A run that could not finish says nothing about the log.
 *
 * @type {Record<import("../proof.js").Run["state"], string>}
 */
const STATES = {
  none: "none",
  failed: "none",
  running: "running",
  whole: "whole",
  part: "whole",
  broken: "broken",
};

/** @param {World} world */
function serverWord(world) {
  const word = h("p", { "data-server": "none" });
  const problem = h("p.problem", { hidden: true });
  const ask = button(say.ask, () => void read(), { "data-action": "verify_event_chain" });
  const node = h(
    "div.stack.tight.panel-body",
    h("h2", say.server),
    h("p.quiet.small", say.serverHint),
    word,
    problem,
    h("div.row", ask),
  );

  async function read() {
    disable(ask, say.asking);
    setAttr(word, "data-server", "asking");
    setText(word, say.asking);
    show(problem, false);
    try {
      const { body } = await world.ask("verify_event_chain");
      setAttr(word, "data-server", "valid");
      setChildren(word, [say.says(body.events, body.head.lsn), compared(body.head)]);
    } catch (error) {
      refused(/** @type {import("../net/ask.js").Problem} */ (error));
    } finally {
      look();
    }
  }

  /** @param {{lsn: number, hash: string}} head */
  function compared(head) {
    const ours = world.proof.found()?.report.head;
    if (ours?.lsn !== head.lsn) return null;
    return ` ${ours.hash === head.hash ? say.sameHead : say.otherHead}`;
  }

  /** @param {import("../net/ask.js").Problem} refusal */
  function refused(refusal) {
    const { lsn } = refusal.members ?? {};
    const isBroken = refusal.code === "event-log-broken" && lsn !== undefined;
    setAttr(word, "data-server", isBroken ? "broken" : "none");
    setText(word, isBroken ? say.saysBroken(lsn) : "");
    showProblem(world, problem, isBroken ? null : refusal);
  }

  /** Enables the button only while the connection allows the request. */
  function look() {
    if (word.dataset.server !== "asking") disable(ask, whyNot(world, "verify_event_chain"));
  }
  look();

  return { node, show: look };
}
