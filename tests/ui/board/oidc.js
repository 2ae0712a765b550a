// An identity provider that is not the service's: who comes types a name, and is signed in as whoever is known under it, or
// goes back without.
//
// Promises: it checks what a careful provider checks of the service, such as its secret, the verifier of the code and
// where a browser is sent back to. Leaves out: that it lies; the service's own tests have that.

import { createHash, createSign, generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";

const CLIENT = { id: "svc", secret: "the secret of this client" };
const KEY_ID = "the only key";

const encoded = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** The page on which somebody signs in. */
const PAGE = (query) => `<!doctype html><title>A provider</title><form method="post" action="/authorize?${query}">
<input name="login"><button name="answer" value="yes">Sign in</button><button name="answer" value="no">Go back</button></form>`;

async function formOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return new URLSearchParams(Buffer.concat(chunks).toString());
}

/**
 * Starts a provider.
 *
 * @param {Record<string, Record<string, unknown>>} people what it signs about people, by the names that they type
 */
export async function startProvider(people) {
  const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const codes = new Map();
  let [issuer, callback] = ["", ""];

  function signed(claims) {
    const text = `${encoded({ alg: "RS256", typ: "JWT", kid: KEY_ID })}.${encoded(claims)}`;
    return `${text}.${createSign("RSA-SHA256").update(text).sign(privateKey, "base64url")}`;
  }

  /** What is wrong with how a browser was sent here. */
  function wrong(asked) {
    const wanted = { response_type: "code", client_id: CLIENT.id, redirect_uri: callback, code_challenge_method: "S256" };
    return Object.entries(wanted).find(([name, value]) => asked.get(name) !== value)?.[0];
  }

  async function authorize(request, asked) {
    const bad = wrong(asked);
    if (bad) return { status: 400, type: "text/plain", text: `wrong: ${bad}` };
    if (request.method === "GET")
      return { type: "text/html", text: PAGE(asked.toString().replaceAll("&", "&amp;")) };
    const form = await formOf(request);
    const back = new URL(callback);
    back.searchParams.set("state", asked.get("state"));
    back.searchParams.set("iss", issuer);
    const person = people[form.get("login")];
    if (form.get("answer") !== "yes" || !person) back.searchParams.set("error", "access_denied");
    else {
      const code = randomUUID();
      codes.set(code, { person, nonce: asked.get("nonce"), challenge: asked.get("code_challenge") });
      back.searchParams.set("code", code);
    }
    return { status: 303, headers: { location: back.href } };
  }

  async function exchange(request) {
    const form = await formOf(request);
    const basic = [CLIENT.id, CLIENT.secret].map((one) => encodeURIComponent(one).replaceAll("%20", "+")).join(":");
    const found = codes.get(form.get("code"));
    codes.delete(form.get("code"));
    const isClient = request.headers.authorization === `Basic ${Buffer.from(basic).toString("base64")}`;
    const challenge = createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url");
    if (!isClient || !found || challenge !== found.challenge || form.get("redirect_uri") !== callback)
      return { status: 400, json: { error: "invalid_grant" } };
    const now = Math.floor(Date.now() / 1_000);
    const claims = { ...found.person, iss: issuer, aud: CLIENT.id, nonce: found.nonce, iat: now, exp: now + 300 };
    return { json: { access_token: randomUUID(), token_type: "Bearer", id_token: signed(claims) } };
  }

  function document() {
    return {
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/keys`,
      response_types_supported: ["code"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: ["RS256"],
      authorization_response_iss_parameter_supported: true,
    };
  }

  async function answer(request) {
    const { pathname, searchParams } = new URL(request.url, issuer);
    if (pathname === "/.well-known/openid-configuration") return { json: document() };
    if (pathname === "/keys")
      return { json: { keys: [{ ...publicKey.export({ format: "jwk" }), use: "sig", alg: "RS256", kid: KEY_ID }] } };
    if (pathname === "/token") return exchange(request);
    if (pathname === "/authorize") return authorize(request, searchParams);
    return { status: 404, json: { error: "not_found" } };
  }

  const server = createServer(async (request, response) => {
    const { status = 200, json, type = "application/json", text = json && JSON.stringify(json), headers } = await answer(request);
    response.writeHead(status, { "content-type": type, ...headers }).end(text);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  issuer = `http://127.0.0.1:${server.address().port}`;
  return {
    issuer,
    /** The variables of a service that browsers reach at an address. @param {string} address */
    variables(address) {
      callback = `${address}/auth/oidc/callback`;
      return {
        SVC_OIDC_ENABLED: "1",
        SVC_OIDC_ISSUER: issuer,
        SVC_OIDC_CLIENT_ID: CLIENT.id,
        SVC_OIDC_CLIENT_SECRET: CLIENT.secret,
        SVC_OIDC_REDIRECT_URI: callback,
      };
    },
    /** @returns {Promise<void>} */
    close() {
      server.closeAllConnections();
      return new Promise((done) => server.close(() => done()));
    },
  };
}
