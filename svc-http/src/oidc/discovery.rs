//! Reads the discovery document: the endpoints of the provider, and how the token endpoint authenticates this
//! service.

use reqwest::Url;

use super::document::{Document, LenientBool, OneOrMoreTexts};

/// Maximum characters of an unexpected issuer that are logged.
const ISSUER_LOGGED_MAX: usize = 200;

/// Members of a discovery document that this service uses.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Discovery {
    pub authorization_endpoint: Url,
    pub token_endpoint: Url,
    pub jwks_uri: Url,
    /// URL of the UserInfo endpoint; `None` if the provider has no such endpoint or the value is not a URL.
    pub userinfo_endpoint: Option<Url>,
    /// Whether the token endpoint accepts the client secret only in the request body.
    pub requires_secret_in_body: bool,
    /// Whether responses of the authorization endpoint contain the issuer (RFC 9207).
    pub sends_issuer: bool,
}

impl Discovery {
    /// Parses a discovery document. Fails unless the document contains the issuer `expected_issuer`.
    pub fn parse(json: &[u8], expected_issuer: &str) -> Result<Self, String> {
        let document = Document::parse(json)?;
        let named: String = document.required_member("issuer")?;
        if named != expected_issuer {
            let shown: String = named.chars().take(ISSUER_LOGGED_MAX).collect();
            return Err(format!("its `issuer` is {shown:?}, which is not SVC_OIDC_ISSUER"));
        }
        let address = |name: &str| {
            let text: String = document.required_member(name)?;
            Url::parse(&text).map_err(|_| format!("its `{name}` is not an address"))
        };
        let methods: Option<OneOrMoreTexts> =
            document.optional_member("token_endpoint_auth_methods_supported");
        let takes = |method: &str| {
            methods.iter().flat_map(OneOrMoreTexts::as_slice).any(|taken| taken.as_str() == method)
        };
        let userinfo: Option<String> = document.optional_member("userinfo_endpoint");
        let sends_issuer: Option<LenientBool> =
            document.optional_member("authorization_response_iss_parameter_supported");
        Ok(Self {
            authorization_endpoint: address("authorization_endpoint")?,
            token_endpoint: address("token_endpoint")?,
            jwks_uri: address("jwks_uri")?,
            userinfo_endpoint: userinfo.and_then(|text| Url::parse(&text).ok()),
            requires_secret_in_body: takes("client_secret_post") && !takes("client_secret_basic"),
            sends_issuer: sends_issuer.is_some_and(|named| named.is_true()),
        })
    }
}
