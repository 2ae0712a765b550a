// Sign-in: with the token of an opened link, with a typed token, or at the identity provider.
//
// Guarantees: a link names its member before the user confirms; a token is sent once and not stored, and its
// field is emptied before. Not here: what follows once there is a session.

import { addressOf, createAsk, service } from "../net/ask.js";
import { signIn } from "../net/session.js";
import { returnTo } from "../pure/address.js";
import { shell, signIn as say } from "../strings/en.js";
import { button, h, show } from "../view/node.js";

/** @typedef {import("../net/session.js").Session} Session */
/** @typedef {import("../net/session.js").SignedIn} SignedIn */
/** @typedef {import("../net/session.js").Ways} Ways */
/**
 * @typedef {{
 *   ways: Ways,
 *   linkToken: string | null,
 *   current: Session | null,
 *   signedIn: (signedIn: SignedIn) => void,
 *   keep?: () => void,
 *   isTyping?: boolean,
 * }} Setting `current`: session that exists when a link of another member is opened; `keep` continues with
 * it; `isTyping`: the user types elsewhere, so no field takes the focus.
 */

/**
 * Fills an element with the ways to sign in.
 *
 * @param {HTMLElement} root
 * @param {Setting} setting
 */
export function openSignIn(root, setting) {
  const ask = createAsk({ workspace: () => null });
  const problem = h("p.problem", { hidden: true, role: "alert" });
  const ways = h("div.stack", ...fields());
  root.replaceChildren(ways, problem);
  if (setting.linkToken) void offer(setting.linkToken);
  else if (!setting.isTyping) root.querySelector("input")?.focus();

  /** @param {string} text */
  function tell(text) {
    show(problem, text !== "");
    problem.textContent = text;
  }

  let isEntering = false;
  /** @param {string} token */
  async function enter(token) {
    if (isEntering) return;
    isEntering = true;
    tell("");
    try {
      const signedIn = await signIn(ask, token);
      if (signedIn) setting.signedIn(signedIn);
      else tell(say.cookieRefused);
    } catch (error) {
      tell(whyNot(/** @type {import("../net/ask.js").Problem} */ (error)));
    } finally {
      isEntering = false;
    }
  }

  /** Names the member of a link and offers to sign in. @param {string} token */
  async function offer(token) {
    ways.replaceChildren(h("p.quiet", say.asking));
    try {
      const { body } = await ask("whoami", {}, { token });
      const press = button(say.enter(body.handle), () => void enter(token), {
        class: "primary",
        "data-action": "create_session",
      });
      const { current, keep } = setting;
      ways.replaceChildren(
        ...(current ? [h("p", say.other(current.handle))] : []),
        h("p", say.as(body.handle, body.kind)),
        h("p.quiet.small", say.enterHint),
        h("div.row", press, current && keep ? button(say.keep(current.handle), keep) : null),
      );
      press.focus();
    } catch (error) {
      const { status, code } = /** @type {import("../net/ask.js").Problem} */ (error);
      const { current, keep } = setting;
      ways.replaceChildren(...(current && keep ? [button(say.keep(current.handle), keep)] : []), ...fields());
      tell(status === 401 ? say.badLink : status === 0 ? say.unreachable : say.unexpected(code));
    }
  }

  /** @returns {Node[]} */
  function fields() {
    const { token, oidc } = setting.ways;
    const all = [];
    if (oidc) all.push(provider());
    if (token) all.push(byToken());
    return all.length ? all : [h("p", say.noWays)];
  }

  function byToken() {
    const input = h("input", {
      name: "token",
      type: "password",
      autocomplete: "one-time-code",
      spellcheck: "false",
      required: true,
      "aria-describedby": "token-hint",
    });
    const submit = h("button.primary", { type: "submit", "data-action": "create_session" }, say.withToken);
    return h(
      "form",
      { onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), void enter(taken(input))) },
      h("label.field", h("span.label", say.token), input),
      h("p.quiet.small", { id: "token-hint" }, say.tokenHint),
      h("div.row", submit),
    );
  }

  function provider() {
    const workspace = new URLSearchParams(location.search).get("workspace") ?? undefined;
    const input = { workspace_id: workspace, return_to: returnTo(location.href, service) };
    return h("p", h("a.button", { href: addressOf("begin_oidc_login", input)?.href }, say.withProvider));
  }
}

/** Returns the reason why a token was rejected. @param {{status: number, code: string}} problem */
function whyNot({ status, code }) {
  if (status === 401) return say.refused;
  if (status === 403) return shell.foreign(service);
  return status === 0 ? say.unreachable : say.unexpected(code);
}

/** Empties a field and returns its text. @param {HTMLInputElement} input */
function taken(input) {
  const text = input.value.trim();
  input.value = "";
  return text;
}
