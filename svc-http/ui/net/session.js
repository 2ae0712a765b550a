// The session of this browser: reads it, and signs in with a token.
//
// Guarantees: no secret is stored; the token of a sign-in link is removed from the address; the session's
// epoch (workspace and member) tells whether the data on the page still belongs to the same member. Not here:
// signing out and the pages.

/** @typedef {import("./ask.js").Ask} Ask */
/**
 * @typedef {{
 *   session_id: string, workspace_id: string, member_id: string, actor_id: string, delegation_grant_id: string | null, handle: string,
 *   kind: "human" | "agent", capabilities: string[], expires_at: string | null, frozen: boolean,
 * }} Session
 */
/** @typedef {{token: boolean, oidc: boolean}} Ways The sign-in methods of this server. */
/**
 * @typedef {{session: Session, lsn: number}} SignedIn `lsn`: position of the log when the session was read.
 */

/** Pattern of a token in a link; any other fragment is a place on the page. */
const IN_LINK = /^#(svc_[A-Za-z0-9_-]{8,})$/;

/**
 * Removes a token from the address, so that neither history nor a screenshot contains it.
 *
 * @param {Location} location
 * @param {History} history
 * @returns {string | null}
 */
export function takeLink(location, history) {
  const found = IN_LINK.exec(location.hash);
  if (!found) return null;
  history.replaceState(null, "", location.pathname + location.search);
  return found[1] ?? null;
}

/**
 * Reads the session of this browser, or the sign-in methods if there is none.
 *
 * @param {Ask} ask
 * @returns {Promise<{signedIn: SignedIn, ways: null} | {signedIn: null, ways: Ways}>}
 */
export async function readSession(ask) {
  try {
    const { body, lsn } = await ask("get_session");
    return { signedIn: { session: body, lsn }, ways: null };
  } catch (problem) {
    const { status, members } = /** @type {import("./ask.js").Problem} */ (problem);
    if (status !== 401) throw problem;
    const { token = true, oidc = false } = members?.sign_in ?? {};
    return { signedIn: null, ways: { token, oidc } };
  }
}

/**
 * Signs in with a token, and checks that the browser has stored the cookie.
 *
 * @param {Ask} ask
 * @param {string} token
 * @returns {Promise<SignedIn | null>} Null: the browser has refused the cookie.
 */
export async function signIn(ask, token) {
  await ask("create_session", { token });
  return (await readSession(ask)).signedIn;
}

/**
 * Returns a key of workspace and member; data that was read under another key must be discarded.
 *
 * @param {Session} session
 */
export function epochOf(session) {
  return `${session.workspace_id} ${session.member_id}`;
}
