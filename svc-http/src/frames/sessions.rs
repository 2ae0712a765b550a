//! Serves the routes that sign a browser in and out, with JSON and the session cookie.
//!
//! The cookie is `HttpOnly`, so that no script can read it, and `SameSite=Lax`: with `Strict` the browser
//! would not send it after a redirect from an identity provider. Without a key to sign the cookie, the routes
//! do not exist.

use futures_util::future::BoxFuture;
use hyper::header::{HeaderValue, SET_COOKIE};
use secrecy::SecretString;
use serde_json::json;
use svc_core::op::{self, Credential, Reply, SESSION_COOKIE};
use svc_core::ops::{NewSession, SignIn as Input, SignOutResult};
use svc_core::{Code, Error, Result};

use super::{FrameCall, Framing, admit_read_run};
use crate::encode::{self, Response};
use crate::state::ServerState;

/// Frame of the sign-in with a token: reads the token from the JSON field `token`, and sets the session
/// cookie.
pub(super) struct SignIn;

impl Framing for SignIn {
    fn is_served(&self, state: &ServerState) -> bool {
        state.service.session_key().is_some()
    }

    fn response(&self, state: &ServerState, reply: &Reply) -> Response {
        match reply.output_as::<NewSession>().map(|session| signed_in_response(state, reply, session)) {
            Some(Ok(response)) => response,
            Some(Err(error)) => encode::problem_response(&error),
            None => encode::reply_response(reply),
        }
    }

    /// Rejects requests from pages of other sites, which could otherwise sign a person in to an attacker's
    /// account.
    fn respond<'a>(&'a self, call: FrameCall<'a>) -> BoxFuture<'a, Result<Response>> {
        Box::pin(self.sign_in(call))
    }
}

impl SignIn {
    async fn sign_in(&self, mut call: FrameCall<'_>) -> Result<Response> {
        let head = call.request_head().await?;
        call.count_by_address(head.clone()).await?;
        if !call.is_same_origin()? {
            call.discard_body().await;
            return Err(Error::forbidden("a browser signs in only from a page of this service"));
        }
        let input = call.read_unadmitted_body().await?.into_json_input()?;
        let token = SecretString::from(op::decode::<Input>(&input)?.token());
        let admission = call.admit(op::RequestHead { credential: Credential::Bearer(token), ..head }).await?;
        call.run(admission, &input, |reply| self.response(call.state, reply)).await
    }
}

/// Returns the response that sets the session cookie.
fn signed_in_response(state: &ServerState, reply: &Reply, session: &NewSession) -> Result<Response> {
    let mut response = encode::reply_response(reply);
    response.headers_mut().append(SET_COOKIE, session_cookie(state, session)?);
    Ok(response)
}

/// Returns the Set-Cookie header of a session.
pub(super) fn session_cookie(state: &ServerState, session: &NewSession) -> Result<HeaderValue> {
    let key = state.service.session_key().ok_or_else(|| Error::internal("no key signs cookies"))?;
    let secs = session.expires_at.micros().saturating_sub(session.created_at.micros()) / 1_000_000;
    build_session_cookie(state, &key.cookie(session.session_id), secs)
}

fn build_session_cookie(state: &ServerState, value: &str, max_age_secs: i64) -> Result<HeaderValue> {
    let secure = if state.settings.cookie_secure { "; Secure" } else { "" };
    let path = state.cookie_path();
    let cookie = format!(
        "{SESSION_COOKIE}={value}; Path={path}; Max-Age={max_age_secs}; HttpOnly; SameSite=Lax{secure}"
    );
    let mut cookie = HeaderValue::from_str(&cookie).map_err(Error::internal)?;
    cookie.set_sensitive(true);
    Ok(cookie)
}

/// Frame of the routes that use a browser's session. Signing out removes the cookie even if the session has
/// already ended.
pub(super) struct Session;

impl Session {
    async fn respond_to(&self, call: FrameCall<'_>) -> Result<Response> {
        let state = call.state;
        let signs_out = call.is_same_origin_sign_out()?;
        let reads = call.is_read_only();
        let responded = admit_read_run(self, call).await;
        match responded {
            Err(refusal) if reads && refusal.code() == Code::Unauthenticated => {
                let ways = json!({"token": true, "oidc": state.oidc.is_some()});
                Err(refusal.with("sign_in", ways))
            }
            Err(refusal) if signs_out && refusal.code() == Code::Unauthenticated => {
                let mut response = self.error_response(&refusal);
                response.headers_mut().append(SET_COOKIE, build_session_cookie(state, "", 0)?);
                Ok(response)
            }
            responded => responded,
        }
    }
}

impl Framing for Session {
    fn is_served(&self, state: &ServerState) -> bool {
        state.service.session_key().is_some()
    }

    fn response(&self, state: &ServerState, reply: &Reply) -> Response {
        let mut response = encode::reply_response(reply);
        if reply.output_as::<SignOutResult>().is_some() {
            match build_session_cookie(state, "", 0) {
                Ok(removed) => drop(response.headers_mut().append(SET_COOKIE, removed)),
                Err(error) => return encode::problem_response(&error),
            }
        }
        response
    }

    fn respond<'a>(&'a self, call: FrameCall<'a>) -> BoxFuture<'a, Result<Response>> {
        Box::pin(self.respond_to(call))
    }
}
