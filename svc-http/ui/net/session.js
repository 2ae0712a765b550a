// Who is signed in: read, begun by a token, ended, and noticed when it changes.
//
// Promises: no secret is kept; a link to sign in is taken out of the address before anything else; the
// session's epoch (member and workspace) tells whether what is on the page is still the same person's. Leaves
// out: what is shown.

/** @typedef {import("./ask.js").Ask} Ask */
/**
 * @typedef {{
 *   session_id: string, workspace_id: string, member_id: string, actor_id: string, delegation_grant_id: string | null, handle: string,
 *   kind: "human" | "agent", capabilities: string[], expires_at: string | null, frozen: boolean,
 * }} Session
 */
/** @typedef {{token: boolean, oidc: boolean}} Ways How a browser can sign in here. */
/**
 * @typedef {{session: Session, lsn: number}} SignedIn `lsn`: how far the log went when the session was read.
 */

/** What a token in a link looks like; anything else after `#` is a place on the page. */
const IN_LINK = /^#(svc_[A-Za-z0-9_-]{8,})$/;

/**
 * Takes a token out of the address, so that neither history nor a screenshot has it.
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
 * Reads the session of this browser.
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
 * Signs in with a token, and makes sure that the browser has kept the cookie.
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
 * Tells what changes with a session: all that was read before belongs to one member of one workspace.
 *
 * @param {Session} session
 */
export function epochOf(session) {
  return `${session.workspace_id} ${session.member_id}`;
}
