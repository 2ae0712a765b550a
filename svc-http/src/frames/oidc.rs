//! Serves the sign-in at an identity provider: the redirect to the provider, the callback, and the sign-in
//! cookie.
//!
//! The sign-in cookie contains a secret that identifies the browser. The cookie is `HttpOnly` and is removed
//! at the end of the sign-in. It has no Path attribute, so the browser sends the cookie only to the routes in
//! the same folder, even if a proxy strips a prefix from the paths. The cookie is `SameSite=Lax`, because the
//! browser must send it when the provider redirects here. Without a configured provider, or without a key to
//! sign session cookies, the routes do not exist.

use futures_util::future::BoxFuture;
use hyper::header::{COOKIE, HeaderValue, LOCATION, REFERRER_POLICY, SET_COOKIE};
use hyper::{HeaderMap, StatusCode};
use secrecy::ExposeSecret;
use svc_core::op::{self, Reply};
use svc_core::ops::{OidcCallback as Callback, OidcLogin as Login, PendingLogin, ReturnedLogin};
use svc_core::{Error, Result};

use super::sessions::session_cookie;
use super::{FrameCall, Framing};
use crate::encode::{self, Response};
use crate::oidc::Provider;
use crate::state::ServerState;
use crate::ui;

/// Name of the sign-in cookie.
const COOKIE_NAME: &str = "svc_oidc";
/// Query fields of a callback that the server reads. Further fields from a provider are ignored.
const CALLBACK_FIELDS: [&str; 4] = ["state", "code", "iss", "error"];

/// Frame of the route that starts a sign-in and redirects the browser to the provider.
pub(super) struct OidcLogin;

impl Framing for OidcLogin {
    fn is_served(&self, state: &ServerState) -> bool {
        is_served(state)
    }

    /// Contacts the provider before storing the sign-in, so that no sign-in begins while the provider is
    /// unreachable.
    fn respond<'a>(&'a self, call: FrameCall<'a>) -> BoxFuture<'a, Result<Response>> {
        Box::pin(async {
            let format = ErrorFormat::for_call(&call)?;
            format.apply(begin_sign_in(call).await)
        })
    }
}

/// Frame of the callback, to which the provider redirects the browser at the end of a sign-in.
pub(super) struct OidcCallback;

impl Framing for OidcCallback {
    fn is_served(&self, state: &ServerState) -> bool {
        is_served(state)
    }

    /// Ends the pending sign-in, then requests the person's claims from the provider, then begins the
    /// session.
    ///
    /// The UserInfo endpoint is queried only for a person who has not signed in before.
    fn respond<'a>(&'a self, call: FrameCall<'a>) -> BoxFuture<'a, Result<Response>> {
        Box::pin(async {
            let format = ErrorFormat::for_call(&call)?;
            format.apply(finish_sign_in(call).await)
        })
    }
}

/// Formats errors of the sign-in routes: as a page for browsers, as a problem for other clients.
struct ErrorFormat {
    /// URL of the board, to which the error page links; `None` if the client does not accept HTML.
    board: Option<String>,
}

impl ErrorFormat {
    fn for_call(call: &FrameCall<'_>) -> Result<Self> {
        let board = call.state.redirect_location(call.uri()?.path(), "/ui/");
        Ok(Self { board: call.accepts_html()?.then_some(board) })
    }

    fn apply(&self, outcome: Result<Response>) -> Result<Response> {
        match (&self.board, outcome) {
            (Some(board), Err(refusal)) => Ok(ui::error_page(&refusal, Some(board))),
            (_, outcome) => outcome,
        }
    }
}

fn is_served(state: &ServerState) -> bool {
    state.oidc.is_some() && state.service.session_key().is_some()
}

fn configured_provider(state: &ServerState) -> Result<&Provider> {
    state.oidc.as_ref().ok_or_else(|| Error::internal("a route without a provider is served"))
}

async fn begin_sign_in(mut call: FrameCall<'_>) -> Result<Response> {
    let state = call.state;
    let head = call.request_head().await?;
    let path = call.uri()?.path().to_owned();
    let admission = call.admit(head).await?;
    let holder = call.holder(&admission);
    let received = call.read_body(&admission).await;
    let read = received.and_then(|received| received.into_json_input());
    let (input, login) = match read.and_then(|input| op::decode::<Login>(&input).map(|login| (input, login)))
    {
        Ok(read) => read,
        Err(refusal) => return Err(call.record_refusal(admission, refusal).await),
    };
    let provider = configured_provider(state)?;
    let route = provider.sign_in_target(holder, &login, state.service.now());
    let route = state.run_unless_closing(route).await??;
    let answer = |reply: &Reply| {
        let begun = reply.output_as::<PendingLogin>().ok_or_else(|| Error::internal("no login has begun"))?;
        let address = route.sign_in_url(begun)?;
        // The mock provider is a path on this server.
        let is_own = address.starts_with('/');
        let mut response =
            redirect_response(&if is_own { state.redirect_location(&path, &address) } else { address })?;
        let cookie = sign_in_cookie(state, begun.browser.expose_secret(), begun.lasts.as_secs())?;
        response.headers_mut().append(SET_COOKIE, cookie);
        Ok(response)
    };
    let or_problem = |made: Result<Response>| made.unwrap_or_else(|error| encode::problem_response(&error));
    call.run(admission, &input, |reply| or_problem(answer(reply))).await
}

async fn finish_sign_in(mut call: FrameCall<'_>) -> Result<Response> {
    let state = call.state;
    let head = call.request_head().await?;
    let path = call.uri()?.path().to_owned();
    let admission = call.admit(head).await?;
    let holder = call.holder(&admission);
    let received = call.read_body(&admission).await;
    let read = received.and_then(|received| {
        let browser = browser_secret(&received.head.headers);
        let mut input = op::Input { body: Default::default(), ..received.into_json_input()? };
        input.text.retain(|(name, _)| CALLBACK_FIELDS.contains(&name.as_str()));
        input.text.extend(browser.map(|secret| ("browser".to_owned(), secret)));
        Ok((op::decode::<Callback>(&input)?, input))
    });
    let (callback, input) = match read {
        Ok(read) => read,
        Err(refusal) => return Err(call.record_refusal(admission, refusal).await),
    };
    let reply = call.run_for_reply(admission, &input).await?;
    let taken = reply.output_as::<ReturnedLogin>().ok_or_else(|| Error::internal("no login was taken"))?;
    let provider = configured_provider(state)?;
    let workspace = taken.workspace_id;
    let now = state.service.now();
    let identified = provider.identify(holder, &callback, &taken.secrets, now);
    let identified = state.run_unless_closing(identified).await??;
    let claims = if state.service.has_signed_in(workspace, identified.claims()).await? {
        identified.claims().clone()
    } else {
        state.run_unless_closing(provider.complete_claims(holder, identified, now)).await??
    };
    let session = state.service.sign_in(workspace, claims).await?;
    let mut response = redirect_response(&state.redirect_location(&path, &taken.return_to))?;
    response.headers_mut().append(SET_COOKIE, session_cookie(state, &session)?);
    response.headers_mut().append(SET_COOKIE, sign_in_cookie(state, "", 0)?);
    Ok(response)
}

/// Returns the secret in the sign-in cookie, or `None` unless the browser has sent exactly one sign-in
/// cookie.
fn browser_secret(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut secrets = values.flat_map(|value| value.split(';')).filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        (name.trim() == COOKIE_NAME).then(|| value.trim().to_owned())
    });
    let first = secrets.next();
    first.filter(|_| secrets.next().is_none())
}

fn redirect_response(address: &str) -> Result<Response> {
    let mut response = encode::empty_response(StatusCode::SEE_OTHER);
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::from_str(address).map_err(Error::internal)?);
    // The callback's URL contains the authorization code, which must not be sent as a referrer.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(response)
}

fn sign_in_cookie(state: &ServerState, value: &str, max_age_secs: u64) -> Result<HeaderValue> {
    let secure = if state.settings.cookie_secure { "; Secure" } else { "" };
    let cookie = format!("{COOKIE_NAME}={value}; Max-Age={max_age_secs}; HttpOnly; SameSite=Lax{secure}");
    let mut cookie = HeaderValue::from_str(&cookie).map_err(Error::internal)?;
    cookie.set_sensitive(true);
    Ok(cookie)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cookie_has_the_secret() {
        for (cookies, wanted) in [
            (&["svc_oidc=a"][..], Some("a")),
            (&["x=y; svc_oidc=a ; z=w"], Some("a")),
            (&["svc_oidc=a", "svc_oidc=b"], None),
            (&["svc_oidc=a; svc_oidc=a"], None),
            (&["SVC_OIDC=a; svc_oidc2=b"], None),
            (&[], None),
        ] {
            let mut headers = HeaderMap::new();
            for cookie in cookies {
                headers.append(COOKIE, HeaderValue::from_static(cookie));
            }
            assert_eq!(browser_secret(&headers).as_deref(), wanted, "{cookies:?}");
        }
    }
}
