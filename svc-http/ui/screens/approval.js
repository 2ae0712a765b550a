// Page behind an approval link: the question, the task, the requester, and the decision, made here.
//
// Guarantees: a decided request stays on the page; a link that is expired or invalid is reported. Not here:
// signing in, after which the browser returns to the same address.

import { ms } from "../pure/clock.js";
import { openGate } from "../panels/gate.js";
import { approval as say, problemParts } from "../strings/en.js";
import { h, setChildren, setText, show } from "../view/node.js";
import { nodesOf } from "../view/parts.js";
import { pressKeys } from "./press.js";

/** @typedef {import("../world.js").World} World */

/**
 * @param {HTMLElement} root
 * @param {World} world
 * @param {import("../router.js").Place} place
 * @returns {import("../screens.js").Open}
 */
export function open(root, world, place) {
  const link = place.params.link ?? "";
  const key = `approval_link/${link}`;
  const wish = world.reads.wish();
  const status = h("p.quiet.later", { role: "status" }, say.reading);
  const facts = h("p");
  const body = h("div.stack");
  /** @type {import("../panels/gate.js").OpenGate | null} */
  let gate = null;
  root.classList.add("stack", "narrow");
  root.append(h("h1", say.title), status, facts, body);
  wish.set([key]);
  const unbind = world.keys.bind(pressKeys(world, () => root));

  function showEnded() {
    const standing = world.reads.standing(key);
    if (standing?.state !== "missing" && standing?.state !== "refused") return;
    status.classList.remove("later");
    const problem = standing.problem;
    const isEnded = standing.state === "missing" || !problem;
    setChildren(status, isEnded ? [say.ended] : nodesOf(problemParts(problem), world.names));
  }

  /** @param {import("../pure/types.js").Fields} opened */
  function showFacts({ thread_id, channel_id, asked_by, expires_at }) {
    const until = ms(expires_at);
    setChildren(facts, [
      ...nodesOf([say.inTask, { thread: thread_id }, say.inChannel, { channel: channel_id }], world.names),
      h("br"),
      h(
        "span.quiet.small",
        ...nodesOf([say.from(asked_by), until === null ? "" : { time: until }], world.names),
      ),
    ]);
  }

  return {
    show() {
      const opened = world.store.get("approval_link", link);
      show(status, !opened);
      if (!opened) return showEnded();
      if (!gate) {
        gate = openGate(world, opened.gate_id);
        body.append(gate.node);
        wish.set([
          `gate/${opened.gate_id}`,
          `thread/${opened.thread_id}`,
          `channel/${opened.channel_id}`,
          `channel_members/${opened.channel_id}`,
        ]);
        world.title(say.title);
      }
      showFacts(opened);
      gate.show();
      const isOver = world.store.get("gate", opened.gate_id)?.state !== "pending";
      show(status, isOver);
      if (isOver) setText(status, say.over);
    },
    close: () => (unbind(), wish.close()),
  };
}
