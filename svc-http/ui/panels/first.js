// First run: creating a task, creating an agent, and its claim, each step ticked when it has happened.
//
// Guarantees: the steps are shown in a workspace without work until the user hides them; the agent's token is
// shown once and not stored. Not here: later tasks and agents.

import { isLive } from "../pure/lanes.js";
import { list as listOf } from "../pure/format.js";
import { firstRunOf } from "../state/seen.js";
import { first as say } from "../strings/en.js";
import { actionOf } from "../actions.js";
import { actionButton } from "../act.js";
import { createAgentMaker } from "../agent-maker.js";
import { button, h, setAttr, setChildren, setText, show } from "../view/node.js";
import { FEW } from "./first-steps.js";

/** @typedef {import("../world.js").World} World */

/**
 * @param {World} world
 */
export function openFirstRun(world) {
  const { store, me } = world;
  const seen = firstRunOf(me.workspace_id);
  const task = step("task", say.task);
  const agent = step("agent", say.agent);
  const claim = step("claim", say.claim);
  const create = /** @type {import("../actions.js").Action} */ (actionOf("create_thread"));
  const newTask = actionButton(world, create, () => ({ id: me.workspace_id, stays: true }));
  const maker = createAgentMaker(world);
  const agents = h("p.quiet");
  const claimed = h("p");
  task.body.append(h("p.quiet", say.taskHint), h("div.row", newTask.node));
  agent.body.append(agents, maker.node);
  claim.body.append(h("p.quiet", say.claimHint), claimed);
  const root = h(
    "section.first.stack",
    { hidden: true, "aria-label": say.title },
    h("div.row", h("h2", say.title), button(say.hide, hide, { class: "link end" })),
    h("p.quiet", say.lead),
    h("ol.steps", task.node, agent.node, claim.node),
  );
  let isHidden = seen.isDone();
  /** Whether the steps have been shown; they then stay until the user hides them, even if all are done. */
  let wasShown = false;
  /** Whether a task was ever claimed; an ended claim counts. */
  let wasClaimed = false;

  function hide() {
    isHidden = true;
    seen.done();
    show(root, false);
  }

  function facts() {
    const threads = store.count("thread") <= FEW ? store.all("thread") : [];
    const working = threads.find((thread) => isLive(/** @type {any} */ (thread)));
    const hasWorked = threads.some(({ has_result, state }) => has_result || state !== "open");
    return { threads, working, isFirst: store.count("thread") <= FEW && !hasWorked };
  }

  return {
    root,
    /** @param {boolean} isRead Whether all tasks are loaded, so that an empty list is final. */
    show(isRead) {
      const { threads, working, isFirst } = facts();
      wasShown = wasShown || (isRead && isFirst && !working);
      show(root, wasShown && !isHidden);
      if (root.hidden) return;
      const bots = store.all("member").filter(({ kind, active }) => kind === "agent" && active !== false);
      tick(task, threads.length > 0);
      tick(agent, bots.length > 0);
      wasClaimed ||= working !== undefined || threads.some(({ has_result }) => has_result);
      tick(claim, wasClaimed);
      setText(agents, bots.length ? say.agentThere(listOf(bots.map(({ handle }) => handle))) : say.agentHint);
      setChildren(
        claimed,
        working
          ? [say.claimed(world.names.memberText(working.assignee_id)), world.names.thread(working.id)]
          : [],
      );
      newTask.update();
      maker.update();
    },
  };
}

/** @param {string} name @param {string} title */
function step(name, title) {
  const state = h("span.chip", say.open);
  const body = h("div.stack.tight");
  const node = h("li.step.stack.tight", { "data-step": name }, h("h3.row", title, state), body);
  return { node, body, state };
}

/** @param {ReturnType<typeof step>} of @param {boolean} isDone */
function tick({ node, state }, isDone) {
  setAttr(node, "data-done", isDone);
  setText(state, isDone ? say.done : say.open);
  setAttr(state, "data-tone", isDone ? "ok" : null);
}
