// Shows a new secret once, with a copy button and the configuration for programs.
//
// Guarantees: the secret is stored nowhere, and only the user closes its dialog; if the answer was lost, and
// the secret with it, the dialog says so. Not here: creating the secret.

import { addressOf } from "./net/ask.js";
import { secret as say } from "./strings/en.js";
import { configurations } from "./panels/agent-config.js";
import { copied } from "./panels/copied.js";
import { openDialog } from "./view/dialog.js";
import { button, h } from "./view/node.js";

/** @typedef {import("./net/outbox.js").Write} Write */

/**
 * Returns the configurations of common clients with a token.
 *
 * @param {string} secret
 */
export function configured(secret) {
  const mcp = addressOf("mcp_worker")?.href ?? "";
  const whoami = addressOf("whoami")?.href ?? "";
  const clients = Object.entries(configurations({ mcp, whoami, secret })).map(([name, text], at) =>
    h(
      "details",
      { name: "client", open: at === 0 },
      h("summary", say.clients[name] ?? name),
      copied(text, `config-${name}`),
    ),
  );
  return [h("h3", say.configure), ...clients];
}

/**
 * Shows the secret in the answer to a write, and removes the answer from the outbox.
 *
 * @param {string} title
 * @param {Write} write
 */
export function showSecret(title, write) {
  const { body } = write;
  write.body = null;
  // Let the form that asked for the secret close first.
  setTimeout(() => {
    if (body) openSecret(title, nodesOf(body), say.close);
    else openSecret(title, [h("p.told.warn", say.lost)], say.seen);
  }, 0);
}

/** @param {string} title @param {Node[]} body @param {string} closeLabel */
function openSecret(title, body, closeLabel) {
  const close = button(closeLabel, () => dialog.close(), { class: "primary" });
  const dialog = openDialog({ title, body: [...body, h("div.row", close)], name: "secret" });
}

/** @param {any} body @returns {Node[]} */
function nodesOf({ secret, client_id: client, client_secret: ofClient, capabilities }) {
  const warning = h("p.told.warn", say.once);
  if (ofClient) {
    return [
      warning,
      h("h3", say.clientId),
      copied(client, "client_id"),
      h("h3", say.clientSecret),
      copied(ofClient, "client_secret"),
    ];
  }
  return [warning, copied(secret, "secret"), ...(capabilities ? configured(secret) : [])];
}
