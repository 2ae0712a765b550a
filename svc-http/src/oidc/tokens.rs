//! Exchanges an authorization code for tokens (RFC 6749, 4.1.3).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, StatusCode};
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use svc_core::{Error, Result};
use url::form_urlencoded::{Serializer, byte_serialize};

use super::document::{Document, DocumentKind};
use super::keys::provider_unavailable_error;
use super::sign_in_refused_error;

/// Error codes of a token endpoint (RFC 6749, 5.2). Other codes are not logged, since they may contain any
/// text.
const LOGGED_ERRORS: [&str; 6] = [
    INVALID_GRANT,
    "invalid_client",
    "invalid_request",
    "invalid_scope",
    "unauthorized_client",
    "unsupported_grant_type",
];
const INVALID_GRANT: &str = "invalid_grant";

/// Data for the request that exchanges an authorization code for tokens.
pub(super) struct CodeExchange<'e> {
    pub endpoint: &'e Url,
    pub client_id: &'e str,
    pub client_secret: &'e SecretString,
    pub requires_secret_in_body: bool,
    pub redirect_uri: &'e str,
    pub code: &'e str,
    pub verifier: &'e SecretString,
}

impl CodeExchange<'_> {
    pub fn to_request(&self) -> Result<Request<Vec<u8>>> {
        let secret = self.client_secret.expose_secret();
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", self.code)
            .append_pair("redirect_uri", self.redirect_uri)
            .append_pair("code_verifier", self.verifier.expose_secret());
        let mut request = Request::post(self.endpoint.as_str())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if self.requires_secret_in_body {
            form.append_pair("client_id", self.client_id).append_pair("client_secret", secret);
        } else {
            // The client id and the secret are form-encoded (RFC 6749, 2.3.1).
            let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let credentials = format!("{}:{}", encoded(self.client_id), encoded(secret));
            let mut basic = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(credentials)))
                .map_err(Error::internal)?;
            basic.set_sensitive(true);
            request = request.header(AUTHORIZATION, basic);
        }
        request
            .body(form.finish().into_bytes())
            .map_err(|error| provider_unavailable_error(DocumentKind::Discovery, error))
    }
}

/// Tokens from the token endpoint that this service uses.
pub(super) struct TokenResponse {
    pub id_token: SecretString,
    /// Bearer token (RFC 6750) for the UserInfo endpoint; `None` if the access token is of another type.
    pub access_token: Option<SecretString>,
}

impl TokenResponse {
    /// Parses the response of the token endpoint.
    ///
    /// If the provider does not know the code, or returns no ID token, the person is not identified. All
    /// other errors are faults of the provider or of the configuration.
    pub fn parse(status: StatusCode, body: &[u8]) -> Result<Self> {
        let broken = |why: String| provider_unavailable_error(DocumentKind::Tokens, why);
        let away = |why: &str| sign_in_refused_error(DocumentKind::Tokens, why);
        let answer = Document::parse(body).map_err(|why| broken(format!("its status is {status}; {why}")))?;
        let id_token = answer.checked_member::<String>("id_token").map_err(|why| away(&why))?;
        let id_token = id_token.filter(|_| status.is_success());
        let access_token = answer.optional_member::<String>("access_token").filter(|token| !token.is_empty());
        let Some(id_token) = id_token else {
            let error: Option<String> = answer.optional_member("error");
            let known = LOGGED_ERRORS.into_iter().find(|known| error.as_deref() == Some(*known));
            return Err(match known {
                Some(INVALID_GRANT) => away("the provider does not know the code"),
                Some(error) => broken(format!("the provider refuses this client: {error}")),
                None if status.is_success() && access_token.is_some() => away("its `id_token` is missing"),
                None => broken(format!("it has no tokens, and its status is {status}")),
            });
        };
        let kind = answer.checked_member::<String>("token_type");
        let is_bearer = kind.is_ok_and(|kind| kind.is_none_or(|kind| kind.eq_ignore_ascii_case("bearer")));
        let access_token = access_token.filter(|_| is_bearer).map(SecretString::from);
        Ok(Self { id_token: SecretString::from(id_token), access_token })
    }
}
