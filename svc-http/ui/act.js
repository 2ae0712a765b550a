// Runs actions: asks for missing input, sends the request, and shows its outcome.
//
// Guarantees: an unavailable action says why and names the missing capability; an action that cannot be
// undone is armed by the first press and sent by the second, or asks for a reason; a refused action reverts
// only its own optimistic change. Not here: the list of actions (actions.js).

import { actionOf, actionsOn, isTwice } from "./actions.js";
import { openForm, showSecret } from "./later.js";
import { acting as say, actionNames } from "./strings/en.js";
import { createHold } from "./view/hold.js";
import { button, setAttr, setText } from "./view/node.js";
import { createTwice } from "./view/twice.js";

/** @typedef {import("./actions.js").Action} Action */
/** @typedef {import("./world.js").World} World */

/** @param {Action} action @param {any} entity */
export const aboutOf = (action, entity) => `${action.on}/${entity.id}`;

/**
 * Begins an action: sends it immediately, or opens a form for the input that it still needs.
 *
 * @param {World} world
 * @param {Action} action
 * @param {any} entity
 * @param {Record<string, unknown>} [more]
 */
export function begin(world, action, entity, more = {}) {
  if (action.open) return action.open(world, entity);
  const needsForm = (action.fields?.length ?? 0) > 0;
  // A key can be pressed again before the button shows that the request is under way.
  if (!needsForm && world.outbox.isAsking(action.id, aboutOf(action, entity))) return;
  if (!needsForm) return void send(world, action, entity, more);
  void openForm(world, {
    title: actionNames[action.id] ?? action.id,
    op: action.op,
    only: action.fields ?? [],
    values: { ...action.now?.(entity, world), ...more },
    isDanger: action.confirm === "form",
    asksToken: action.asksToken,
    draft: `${action.id}/${entity.id}`,
    send: async (input, token) => (await send(world, action, entity, input, { token })).problem,
  });
}

/**
 * @param {World} world
 * @param {Action} action
 * @param {any} entity
 * @param {Record<string, unknown>} [more]
 * @param {{token?: string}} [manner]
 */
export async function send(world, action, entity, more = {}, { token } = {}) {
  const input = { ...action.fill(entity, world), ...more };
  const { leaves } = action;
  const overlay = action.optimistic?.(entity, input, world) ?? [];
  const key = `${action.id} ${entity.id} ${performance.now()}`;
  if (overlay.length) world.store.lay(key, overlay);
  const write = await world.outbox.send({
    action: action.id,
    op: action.op,
    about: aboutOf(action, entity),
    input,
    token,
    left: leaves && ((event) => leaves(event, input)),
  });
  if (write.state === "done") {
    take(world, write);
    // The answer is already in the store, and no event will confirm the optimistic change, so drop it.
    if (action.op in FOLLOWS) world.store.refused(key);
    else if (overlay.length) world.store.accepted(key, write.lsn);
    // Actions that create secrets are in the same bundle as this dialog, so it is already loaded.
    if (action.hasSecret && !world.outbox.isClosed()) void showSecret(actionNames[action.id] ?? action.id, write);
  } else if (overlay.length) world.store.refused(key);
  if (write.state === "refused" && action.on === "thread") readAgain(world, entity.id);
  return write;
}

/**
 * Reads a task again after a refusal, because the cached state was out of date.
 *
 * @param {World} world
 * @param {string} id
 */
function readAgain(world, id) {
  for (const key of [`thread/${id}`, `context/${id}`, "list/deferred"]) world.reads.again(key);
}

/**
 * Stores the data of a task that an answer contains, and reads again what no event updates.
 *
 * @param {World} world
 * @param {import("./net/outbox.js").Write} write
 */
function take(world, write) {
  const { about, body, lsn, op } = write;
  FOLLOWS[op]?.(world, write);
  if (body && typeof body === "object" && "assignment_expires_at" in body)
    world.store.put("thread", body, lsn);
  // While the store is paused or there is no socket, no event updates the view.
  if (!world.isFollowing()) world.reads.againOf(about);
  for (const name of LISTS_OF[op] ?? []) world.reads.again(`list/${name}`);
  if (op === "mark_inbox_read") world.markedRead();
}

/** @type {Record<string, (world: World, write: import("./net/outbox.js").Write) => void>} */
const FOLLOWS = {
  follow: ({ store }, { body, lsn }) => body && store.put("follow", { ...body, id: body.target_id }, lsn),
  unfollow: ({ store }, { input, lsn }) => store.missing("follow", String(input.target_id), lsn),
};

/** Lists that an operation changes without an event. @type {Record<string, string[]>} */
const LISTS_OF = {
  follow: ["follows"],
  unfollow: ["follows"],
  mark_inbox_read: ["follows"],
  leave_dm: ["dms"],
  add_dm_participant: ["dms"],
};

/**
 * Returns a button for an action on an entity.
 *
 * @param {World} world
 * @param {Action} action
 * @param {() => any} entity
 * @param {{label?: string, begin?: (entity: any) => unknown}} [look] `begin`: replaces the action on a press;
 * the session's capability is not checked then.
 */
export function actionButton(world, action, entity, look = {}) {
  const label = look.label ?? actionNames[action.id] ?? action.id;
  const twice = createTwice(isTwice(action), (isArmed) => showArmed(node, label, isArmed));
  const node = button(label, press, {
    "data-action": action.op,
    "data-of": action.id,
    class: action.isFirst ? "primary" : null,
  });

  function press() {
    const now = entity();
    if (!now || !twice.press()) return;
    if (world.outbox.isAsking(action.id, aboutOf(action, now))) return;
    if (look.begin) void look.begin(now);
    else begin(world, action, now);
  }

  function update() {
    const now = entity();
    const isAsking = now !== undefined && world.outbox.isAsking(action.id, aboutOf(action, now));
    const right = (now && action.rightOf?.(now, world)) ?? action.op;
    const why = look.begin ? offlineNow(world) : whyNot(world, right);
    disable(node, why ?? (isAsking ? say.asking : null));
    if (!twice.isArmed()) setText(node, isAsking ? say.asking : label);
  }
  update();
  return { node, update };
}

/**
 * Shows that a first press has armed the button and that nothing has been sent yet.
 *
 * @param {HTMLElement} node
 * @param {string} label
 * @param {boolean} isArmed
 */
export function showArmed(node, label, isArmed) {
  setText(node, isArmed ? say.armed(label) : label);
  node.classList.toggle("armed", isArmed);
}

/**
 * Marks a control as unavailable with a reason, and keeps it focusable.
 *
 * @param {HTMLElement} node
 * @param {string | null} why
 */
export function disable(node, why) {
  setAttr(node, "aria-disabled", why === null ? null : "true");
  setAttr(node, "title", why);
  setAttr(node, "aria-description", why);
}

/**
 * Returns why an operation cannot be used now, or null if it can.
 *
 * @param {World} world
 * @param {string} op
 * @returns {string | null}
 */
export function whyNot(world, op) {
  const lacks = world.lacks(op);
  return lacks ? say.lacks(lacks) : offlineNow(world);
}

/** @param {World} world */
const offlineNow = (world) => (world.isOffline() ? say.offline : null);

/**
 * Renders buttons for the actions that an entity offers, and rebuilds them only when these change. While the
 * user is pointing at or focused on the buttons, they keep their place: obsolete ones are disabled and new
 * ones are appended.
 *
 * @param {World} world
 * @param {Action["on"]} on
 * @param {HTMLElement} place
 * @param {(action: Action) => boolean} [isWanted]
 */
export function actionBar(world, on, place, isWanted = ({ isMain }) => Boolean(isMain)) {
  const hold = createHold(place);
  /** @type {any} */
  let entity;
  let shown = "";
  /** @type {Map<string, ReturnType<typeof actionButton>>} */
  const buttons = new Map();

  /** @param {boolean} isHeld */
  function draw(isHeld) {
    hold.drop();
    const offered = entity ? actionsOn(on, entity, world).filter(isWanted) : [];
    const names = `${entity?.id} ${offered.map(({ id }) => id).join(" ")}`;
    if (names !== shown) {
      shown = isHeld ? "" : names;
      if (isHeld) hold.whenFree(() => draw(false));
      else buttons.clear(), place.replaceChildren();
    }
    for (const action of offered) {
      if (buttons.has(action.id)) continue;
      const made = actionButton(world, action, () => entity);
      buttons.set(action.id, made);
      place.append(made.node);
    }
    for (const [id, { node, update }] of buttons) {
      update();
      if (!offered.some((action) => action.id === id)) disable(node, say.notNow);
    }
  }

  return {
    /** @param {any} now */
    show(now) {
      const isSame = buttons.size > 0 && entity?.id === now?.id;
      entity = now;
      draw(isSame && hold.isHeld());
    },
  };
}

/**
 * The action that a key armed last.
 *
 * @type {WeakMap<World, {key: string, twice: ReturnType<typeof createTwice>}>}
 */
const keyed = new WeakMap();

/**
 * Begins an action by its key, as a press of its button would, or says why it cannot.
 *
 * @param {World} world
 * @param {string} id
 * @param {any} entity
 */
export function beginById(world, id, entity) {
  const action = actionOf(id);
  if (!action || !entity) return;
  const name = actionNames[id] ?? id;
  const why = whyNot(world, action.op) ?? (action.when(entity, world) ? null : say.notNow);
  if (why) return world.tell(say.cannot(name, why));
  const key = `${id} ${entity.id}`;
  const show = (/** @type {boolean} */ isArmed) => isArmed && world.tell(say.armed(name));
  const last = keyed.get(world);
  const { twice } = last?.key === key ? last : { twice: createTwice(isTwice(action), show) };
  keyed.set(world, { key, twice });
  if (twice.press()) begin(world, action, entity);
}
