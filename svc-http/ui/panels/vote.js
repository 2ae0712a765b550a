// Vote in a message, below its question: the counts and the user's own ballot.
//
// Guarantees: a press sends a ballot, a second press withdraws it; the counts are those of the server. Not
// here: opening a vote, which is an action of the task.

import { ms } from "../pure/clock.js";
import { actionOf } from "../actions.js";
import { actionBar, disable, send, whyNot } from "../act.js";
import { parts as say } from "../strings/en.js";
import { toldBeside } from "../told.js";
import { button, h, setAttr, setChildren, setText, words } from "../view/node.js";
import { nodesOf } from "../view/parts.js";

/** @typedef {import("../world.js").World} World */

/**
 * @param {World} world
 * @param {{vote_id: string, options: string[]}} block
 */
export function voteNode(world, { vote_id, options }) {
  const state = h("p.quiet.small");
  const buttons = h("div.row");
  const told = h("div");
  const bar = actionBar(world, "vote", buttons);
  const beside = toldBeside(world, told);
  const counts = options.map(() => h("span.quiet.small"));
  const choices = options.map((text, at) => {
    const press = button("", () => cast(at), { "data-action": "cast_vote", "data-option": at });
    press.append(words(text));
    return press;
  });
  const rows = choices.map((press, at) => h("li.row", press, /** @type {HTMLElement} */ (counts[at])));
  const node = h(
    "div.stack.tight",
    { "data-vote": vote_id },
    h("ul.stack.tight", ...rows),
    state,
    buttons,
    told,
  );
  const wish = world.reads.wish();
  wish.set([`vote/${vote_id}`]);
  const action = /** @type {import("../actions.js").Action} */ (actionOf("cast_vote"));

  /** @param {any} vote */
  const own = (vote) =>
    vote.options.flatMap((/** @type {any} */ option, /** @type {number} */ at) =>
      option.voter_ids.includes(world.me.member_id) ? [at] : [],
    );

  /** @param {number} at */
  function cast(at) {
    const vote = world.store.get("vote", vote_id);
    if (!vote || vote.closed_at) return;
    const mine = own(vote);
    const others = vote.multiple ? mine.filter((/** @type {number} */ one) => one !== at) : [];
    void send(world, action, vote, { options: mine.includes(at) ? others : [...others, at] });
  }

  function draw() {
    if (!node.isConnected) return close();
    const vote = world.store.get("vote", vote_id);
    if (!vote?.options?.length) return;
    const mine = own(vote);
    const why = vote.closed_at ? say.voteClosed : whyNot(world, "cast_vote");
    for (const [at, press] of choices.entries()) {
      setAttr(press, "aria-pressed", mine.includes(at) ? "true" : "false");
      disable(press, why);
      setText(/** @type {HTMLElement} */ (counts[at]), say.votes(vote.options[at]?.votes ?? 0));
    }
    const end = ms(vote.closes_at);
    setChildren(
      state,
      vote.closed_at ? [say.voteClosed] : end === null ? [] : nodesOf([{ time: end }], world.names),
    );
    bar.show(vote);
    beside.show(`vote/${vote_id}`, vote);
  }

  const unwatch = world.store.watch(draw);
  function close() {
    unwatch();
    wish.close();
  }
  requestAnimationFrame(draw);
  return node;
}
