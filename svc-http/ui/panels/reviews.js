// Reviews of a task: requirement, requested reviewers, verdicts, open findings, and the land gate.
//
// Guarantees: findings are sorted by severity, each with its actions; the server decides whether a review
// counts. Not here: review messages in the timeline.

import { parts as say } from "../strings/en.js";
import { actionOf } from "../actions.js";
import { actionBar, actionButton } from "../act.js";
import { marked } from "../marked.js";
import { toldBeside } from "../told.js";
import { h, keyed, setChildren, show, words } from "../view/node.js";

/** @typedef {import("../world.js").World} World */

const SEVERITIES = ["critical", "major", "minor", "info"];
/** @type {Record<string, string>} */
const TONES = {
  critical: "bad",
  major: "warn",
  approve: "ok",
  request_changes: "warn",
  pass: "ok",
  fail: "bad",
};
const OFFERED = ["submit_review", "add_reviewer", "set_review_requirement", "set_land_gate"];

/**
 * @param {HTMLElement} place
 * @param {World} world
 * @returns {import("../panels.js").OpenPanel}
 */
export function open(place, world) {
  const sum = h("p.row");
  const askedTitle = h("h3", say.reviewers);
  const asked = h("ul.stack.tight");
  const removal = /** @type {import("../actions.js").Action} */ (actionOf("remove_reviewer"));
  const list = h("div.stack");
  const buttons = h("div.row");
  const bar = actionBar(world, "thread", buttons, ({ id }) => OFFERED.includes(id));
  place.append(sum, askedTitle, asked, list, buttons);
  const { store } = world;

  /** @param {any} thread */
  function showSum(thread) {
    const status = store.get("review_status", thread.id);
    const land = store.get("land_gate", thread.id);
    const isMet = status?.satisfied;
    setChildren(sum, [
      status
        ? h(
            "span.chip",
            { "data-tone": status.required === 0 ? null : isMet ? "ok" : "warn" },
            status.required === 0 ? say.noneRequired : say.approvals(status.approvals, status.required),
          )
        : null,
      land?.required || land?.verdict ? landOf(land) : null,
    ]);
  }

  /** @param {any} land */
  function landOf({ verdict, satisfied }) {
    const text = verdict ? say.landVerdicts[/** @type {"pass"} */ (verdict)] : say.landMissing;
    return h("span", say.landGate, " ", h("span.chip", { "data-tone": satisfied ? "ok" : "warn" }, text));
  }

  /** @type {ReturnType<typeof actionButton>[]} */
  let removals = [];
  let askedDrawn = "";
  /** Draws the requested reviewers, each with a button that removes the request. @param {any} thread */
  function showAsked(thread) {
    const items = store.get("reviewers", thread.id)?.items ?? [];
    const state = items.map((/** @type {any} */ { member_id }) => member_id).join() + store.count("member");
    if (state !== askedDrawn) {
      askedDrawn = state;
      removals = items.map((/** @type {any} */ { member_id }) =>
        actionButton(world, removal, () => ({
          id: `${thread.id} ${member_id}`,
          thread_id: thread.id,
          member_id,
        })),
      );
      setChildren(
        asked,
        items.map((/** @type {any} */ { member_id }, /** @type {number} */ at) =>
          h("li.row", h("span.grow", world.names.member(member_id)), /** @type {any} */ (removals[at]).node),
        ),
      );
    }
    show(askedTitle, items.length > 0);
    for (const { update } of removals) update();
  }

  return {
    show(thread) {
      showSum(thread);
      showAsked(thread);
      const reviews = store.all("review").filter((review) => review.thread_id === thread.id);
      // A review that an event created has no text yet.
      if (reviews.some(({ stale }) => stale)) world.reads.again(`reviews/${thread.id}`);
      reviews.sort((one, other) => other.lsn - one.lsn);
      const weighed = new Map(
        (store.get("review_status", thread.id)?.reviews ?? []).map((/** @type {any} */ one) => [
          one.review_id,
          one,
        ]),
      );
      keyed(list, reviews, {
        key: ({ id }) => id,
        make: () => h("article.review.stack.tight"),
        update: (node, review) => fill(world, node, review, weighed.get(review.id)),
      });
      if (reviews.length === 0) setChildren(list, [h("p.quiet", say.noReviews)]);
      bar.show(thread);
    },
  };
}

/** @type {WeakMap<HTMLElement, {review: unknown, weight: unknown, show: () => void}>} */
const drawn = new WeakMap();

/** @param {World} world @param {HTMLElement} node @param {any} review @param {any} weight */
function fill(world, node, review, weight) {
  const before = drawn.get(node);
  if (before && before.review === review && before.weight === weight) return before.show();
  const findings = [...(review.findings ?? [])].sort(
    (one, other) => SEVERITIES.indexOf(one.severity) - SEVERITIES.indexOf(other.severity),
  );
  const rows = findings.map((finding) => findingOf(world, { ...finding, thread_id: review.thread_id }));
  const channel = world.store.get("thread", review.thread_id)?.channel_id;
  const verdict = say.verdicts[/** @type {"approve"} */ (review.verdict)] ?? review.verdict;
  setChildren(node, [
    h(
      "p.row",
      world.names.member(review.member_id),
      h("span.chip", { "data-tone": TONES[review.verdict] }, verdict),
      weight && review.verdict === "approve"
        ? h("span.quiet.small", weight.counts ? say.counts : say.noCount(weight.why_not ?? ""))
        : null,
      review.head_sha ? h("bdi.mono.quiet", review.head_sha.slice(0, 12)) : null,
    ),
    review.body ? marked(world, review.body, { of: `review/${review.id}`, channel }) : null,
    rows.length ? h("ul.stack.tight", ...rows.map(({ node: row }) => row)) : null,
  ]);
  const showAll = () => rows.forEach((row) => row.show());
  drawn.set(node, { review, weight, show: showAll });
  showAll();
}

/** @param {World} world @param {any} finding */
function findingOf(world, finding) {
  const buttons = h("div.row");
  const told = h("div");
  const bar = actionBar(world, "finding", buttons);
  const beside = toldBeside(world, told);
  const { severity, resolution } = finding;
  const node = h(
    "li.finding.stack.tight",
    { "data-finding": finding.id },
    h(
      "p.row",
      h(
        "span.chip",
        { "data-tone": resolution ? null : TONES[severity] },
        say.severities[/** @type {"info"} */ (severity)],
      ),
      resolution
        ? h("span.chip", { "data-tone": "ok" }, say.resolutions[/** @type {"fixed"} */ (resolution)])
        : null,
      finding.path ? h("bdi.mono.quiet", say.line(finding.path, finding.line)) : null,
    ),
    finding.body ? h("p", words(finding.body)) : null,
    buttons,
    told,
  );
  return {
    node,
    show() {
      bar.show(finding);
      beside.show(`finding/${finding.id}`, finding);
    },
  };
}
