// Actions on the user's own notifications and delivery channels.
//
// Not here: name and skills, which are actions on a member (members.js).

/** @typedef {import("../actions.js").Action} Action */

/** @type {Action[]} */
export const me = [
  {
    id: "set_notification_preferences",
    op: "set_notification_preferences",
    on: "preferences",
    isFirst: true,
    when: () => true,
    fill: () => ({}),
  },
  {
    id: "set_delivery_address",
    op: "set_delivery_address",
    on: "preferences",
    isMain: true,
    when: () => true,
    fill: () => ({}),
    fields: ["address", "mode"],
    now: ({ delivery }) => ({ address: delivery?.pending ?? delivery?.address, mode: delivery?.mode }),
  },
  {
    id: "confirm_delivery_address",
    op: "confirm_delivery_address",
    on: "preferences",
    isMain: true,
    isFirst: true,
    when: ({ delivery }) => Boolean(delivery?.pending),
    fill: () => ({}),
    fields: ["code"],
  },
  {
    id: "register_web_push",
    op: "register_web_push",
    on: "preferences",
    when: ({ web_push }) => Boolean(web_push?.public_key),
    fill: () => ({}),
  },
  {
    id: "remove_web_push",
    op: "remove_web_push",
    on: "subscription",
    isMain: true,
    when: () => true,
    fill: ({ id }) => ({ subscription_id: id }),
  },
];
