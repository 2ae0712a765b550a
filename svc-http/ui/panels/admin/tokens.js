// Tokens of a member: the capabilities and expiry of each, and creating, rotating and revoking tokens.
//
// Guarantees: a secret is shown once, on creation; to derive a narrower token, the user types in the
// original. Not here: session tokens, which expire automatically.

import { refsOf } from "../../forms.js";
import { number } from "../../pure/format.js";
import { admin as common, adminParts as say } from "../../strings/en.js";
import { actionOf } from "../../actions.js";
import { actionButton } from "../../act.js";
import { toldBeside } from "../../told.js";
import { pickField } from "../../view/complete.js";
import { h, setAttr } from "../../view/node.js";
import { canFact, isOverNow, openRows, standingOf, timeText, untilFact, wordsOr } from "./rows.js";
import { workspaceBar } from "./part.js";

/** @type {import("./part.js").OpenAdminPart} */
export function open(place, world, { query, wish }) {
  const { store, reads } = world;
  const memberId = () => query().get("member") ?? world.me.member_id;
  let shown = memberId();
  let picker = pick();
  const whose = h("label.field", h("span.label", say.whose), picker.node);
  const bar = workspaceBar(world, "attenuate_token");
  const mint = actionButton(
    world,
    /** @type {import("../../actions.js").Action} */ (actionOf("mint_token")),
    () => store.get("member", shown),
  );
  const told = h("div");
  const beside = toldBeside(world, told);
  const rows = openRows(world, {
    on: "token",
    label: say.tokensOf,
    none: say.noTokens,
    marks: { "data-token": "id" },
    isOver: isOverNow(world),
    title: ({ label }) => [wordsOr(label, say.unnamed)],
    chips: (token) => [standingOf(world, token) ?? [], kindsOf(token)].flat(),
    facts: (token) => [
      canFact(token.capabilities),
      [common.created, timeText(token.created_at)],
      untilFact(token.expires_at),
      ...(token.quotas ? [/** @type {[string, string]} */ ([say.quota, number(token.quotas.requests)])] : []),
    ],
  });
  bar.nodes[0]?.prepend(mint.node);
  place.append(whose, ...bar.nodes, told, rows.node);

  function pick() {
    const field = pickField({ kind: "member", value: shown, isRequired: false, refs: refsOf(world) });
    setAttr(/** @type {HTMLElement} */ (field.node.firstElementChild), "name", "member_id");
    field.node.addEventListener("change", chosen);
    return field;
  }

  function chosen() {
    let id;
    try {
      id = /** @type {string | undefined} */ (picker.read());
    } catch {
      // The text is not the name of a member yet.
    }
    if (!id || id === shown) return;
    world.note(`?part=tokens&member=${id}`);
    become(id);
  }

  /** @param {string} id */
  function become(id) {
    shown = id;
    wish();
    draw();
  }

  let named = "";
  function draw() {
    const member = store.get("member", shown);
    const name = `${shown} ${member?.handle}`;
    if (name !== named) {
      const next = pick();
      picker.node.replaceWith(next.node);
      picker = next;
      named = name;
    }
    bar.show();
    mint.update();
    beside.show(`member/${shown}`, member);
    rows.show(store.get("member_tokens", shown)?.items ?? null);
  }

  return {
    wants: () => [`member_tokens/${shown}`],
    show(changes) {
      if (changes?.lists.has("tokens")) reads.again(`member_tokens/${shown}`);
      if (memberId() !== shown) become(memberId());
      else draw();
    },
    close: rows.close,
  };
}

/**
 * Returns chips with the origin of a token that was not created directly for its member.
 *
 * @param {any} token
 */
function kindsOf({ parent_id, delegation_grant_id, installation_id }) {
  return [
    parent_id ? say.derived : null,
    delegation_grant_id ? say.delegated : null,
    installation_id ? say.ofApp : null,
  ].flatMap((text) => (text ? [{ text, tone: null }] : []));
}
