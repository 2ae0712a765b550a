// Push notifications of this browser, and the list of subscribed browsers.
//
// Guarantees: the browser asks for permission only after a press; an unavailable setting shows the reason.
// Not here: what members are notified about.

import { dateTime } from "../../pure/format.js";
import { ms } from "../../pure/clock.js";
import { settings as say } from "../../strings/en.js";
import { actionOf } from "../../actions.js";
import { actionButton, disable, send } from "../../act.js";
import { unsubscribe } from "../../push-here.js";
import { pushHere, subscribe } from "./subscription.js";
import { toldBeside } from "../../told.js";
import { h, keyed, setAttr, setText, show, words } from "../../view/node.js";

/** @typedef {import("../../world.js").World} World */

/** @param {World} world @param {() => any} preferences */
export function pushPart(world, preferences) {
  const register = /** @type {import("../../actions.js").Action} */ (actionOf("register_web_push"));
  const remove = /** @type {import("../../actions.js").Action} */ (actionOf("remove_web_push"));
  const state = h("p");
  const told = h("div");
  const beside = toldBeside(world, told);
  const list = h("ul.stack.tight");
  const none = h("p.quiet", say.noBrowsers);
  const press = actionButton(world, register, preferences, { label: say.notify, begin: begin });
  /** @type {Awaited<ReturnType<typeof pushHere>> | null} */
  let here = null;
  /** Error that occurred in the browser. @type {string | null} */
  let wrong = null;

  async function look() {
    here = await pushHere().catch(() => ({ standing: /** @type {const} */ ("unsupported"), endpoint: null }));
    draw();
  }

  async function begin() {
    const key = preferences()?.web_push.public_key;
    if (!key) return;
    wrong = null;
    try {
      const made = await subscribe(key, world.me.member_id);
      if (made) {
        const { endpoint, expirationTime, keys } = made;
        const write = await send(world, register, preferences(), { endpoint, expirationTime, keys });
        // A subscription that the server does not have receives nothing.
        if (write.state !== "done") await unsubscribe();
      } else wrong = say.cannot.refused ?? null;
    } catch {
      wrong = say.cannot.failed ?? null;
    }
    world.reads.again("list/preferences");
    await look();
  }

  /** @param {any} subscription */
  async function stop(subscription) {
    const write = await send(world, remove, subscription);
    if (write.state === "done" && subscription.endpoint === here?.endpoint) await unsubscribe();
    world.reads.again("list/preferences");
    await look();
  }

  /** @type {WeakMap<HTMLElement, (subscription: any) => void>} */
  const updates = new WeakMap();
  /** @param {any} first */
  function row(first) {
    let now = first;
    const mark = h("span.chip", { "data-tone": "ok" }, say.thisOne);
    const when = h("span.quiet.small");
    const button = actionButton(world, remove, () => now, { label: say.stop, begin: stop });
    const toldOf = h("div");
    const besideIt = toldBeside(world, toldOf);
    const head = h("div.row", words(hostOf(first.endpoint)), mark, when, h("span.end"), button.node);
    const node = h("li.stack.tight", { "data-subscription": first.id }, head, toldOf);
    updates.set(node, (subscription) => {
      now = subscription;
      const last = ms(now.last_ok_at);
      show(mark, now.endpoint === here?.endpoint);
      setText(
        when,
        `${say.since(dateTime(ms(now.created_at) ?? 0))}, ${last === null ? say.neverOk : say.lastOk(dateTime(last))}`,
      );
      button.update();
      besideIt.show(`subscription/${now.id}`, now);
    });
    return node;
  }

  function draw() {
    const now = preferences();
    if (!now || !here) return;
    const { public_key: key, subscriptions } = now.web_push;
    const isOn = subscriptions.some((/** @type {any} */ one) => one.endpoint === here?.endpoint);
    const why = wrong ?? (key ? say.cannot[here.standing] : say.cannot.disabled) ?? null;
    setText(state, why ?? (isOn ? say.on : say.off));
    setAttr(state, "data-push", isOn ? "on" : here.standing === "on" ? "off" : here.standing);
    show(press.node, !isOn && ["on", "off"].includes(here.standing));
    press.update();
    if (!key) disable(press.node, why);
    beside.show(`preferences/${now.id}`, now);
    show(none, subscriptions.length === 0);
    keyed(list, subscriptions, {
      key: (one) => one.id,
      make: row,
      update: (node, one) => updates.get(node)?.(one),
    });
  }

  void look();
  return {
    node: h(
      "section.panel",
      { "aria-label": say.here },
      h(
        "div.panel-body.stack",
        ...[h("h2", say.here), state, h("div.row", press.node), told, h("h3", say.browsers), none, list],
      ),
    ),
    show: draw,
  };
}

/**
 * Returns the host of the push service. The rest of the address is a secret of the browser.
 *
 * @param {string} endpoint
 */
function hostOf(endpoint) {
  return URL.canParse(endpoint) ? new URL(endpoint).host : "";
}
