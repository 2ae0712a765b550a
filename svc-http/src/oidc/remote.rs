//! A real provider: the authorization code flow with PKCE, and the checks of the token that it signs.
//!
//! The library checks signature, issuer, audience, nonce and times; what it leaves to its caller is here:
//! that the algorithm is asymmetric, that the clock may be a minute off, `nbf`, and the authorized party.

use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreClientAuthMethod, CoreErrorResponseType,
    CoreGenderClaim, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm,
    CoreRevocableToken, CoreRevocationErrorResponse, CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::{
    AdditionalClaims, AsyncHttpClient, AuthType, AuthorizationCode, ClaimsVerificationError, ClientId,
    ClientSecret, CsrfToken, EmptyExtraTokenFields, EndpointMaybeSet, EndpointNotSet, EndpointSet,
    HttpRequest, HttpResponse, IdTokenClaims, IdTokenFields, Nonce, PkceCodeChallenge, PkceCodeVerifier,
    RedirectUrl, RequestTokenError, Scope, SignatureVerificationError, StandardErrorResponse,
    StandardTokenResponse, TokenResponse as _,
};
use reqwest::Url;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use svc_core::config::{OidcConfig, OidcProvider};
use svc_core::ops::{BegunLogin, LoginSecrets, ProviderClaims};
use svc_core::time::Time;
use svc_core::{Error, Result};

use super::keys::{Keys, away, broken};
use super::{owned, refused};
use crate::outbound::{Failed, Outbound, Reach};

pub(super) use super::keys::Known;

/// How far the provider's clock may be from this one.
const SKEW: Duration = Duration::from_secs(60);

/// What a token may be signed with: only what the provider alone has the key of.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// A provider, and this service as its client.
pub(super) struct Remote {
    issuer: String,
    client_id: ClientId,
    client_secret: SecretString,
    redirect_uri: RedirectUrl,
    outbound: Outbound,
    keys: Keys,
}

/// What the library does not check of a token (RFC 7519, 4.1.5).
#[derive(Debug, Serialize, Deserialize)]
struct Unchecked {
    /// The second since 1970 before which it does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    nbf: Option<f64>,
}

impl AdditionalClaims for Unchecked {}

type Claims = IdTokenClaims<Unchecked, CoreGenderClaim>;
type Tokens = StandardTokenResponse<
    IdTokenFields<
        Unchecked,
        EmptyExtraTokenFields,
        CoreGenderClaim,
        CoreJweContentEncryptionAlgorithm,
        CoreJwsSigningAlgorithm,
    >,
    CoreTokenType,
>;

type Client = openidconnect::Client<
    Unchecked,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    Tokens,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// The library's requests go out like all others.
impl<'c> AsyncHttpClient<'c> for Outbound {
    type Error = Failed;
    type Future = BoxFuture<'c, std::result::Result<HttpResponse, Failed>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.send(request))
    }
}

type NotExchanged = RequestTokenError<Failed, StandardErrorResponse<CoreErrorResponseType>>;

/// Why a token does not count.
enum Rejected {
    /// It names a key that is not known.
    UnknownKey,
    /// Anything else.
    Invalid(String),
}

impl Remote {
    pub fn new(config: &OidcConfig) -> Result<Self> {
        let OidcProvider::At { issuer, client_id, client_secret, allow_loopback_http } = &config.provider
        else {
            return Err(Error::internal("the mock is no remote provider"));
        };
        let wrong = |name: &str| Error::configuration(format!("{name} is not an address"));
        let host = Url::parse(issuer).ok().and_then(|url| url.host_str().map(str::to_owned));
        let private_host = Some(host.ok_or_else(|| wrong("SVC_OIDC_ISSUER"))?);
        let redirect_uri = config.redirect_uri.clone().and_then(|uri| RedirectUrl::new(uri).ok());
        let loopback_http = *allow_loopback_http;
        let outbound = Outbound::new(Reach { private_host, loopback_http, ..Reach::default() });
        Ok(Self {
            issuer: issuer.clone(),
            client_id: ClientId::new(client_id.clone()),
            client_secret: client_secret.clone(),
            redirect_uri: redirect_uri.ok_or_else(|| wrong("SVC_OIDC_REDIRECT_URI"))?,
            outbound: outbound.map_err(Error::internal)?,
            keys: Keys::new(issuer.clone()),
        })
    }

    pub async fn known(&self, now: Time) -> Result<Known> {
        self.keys.known(&self.outbound, now).await
    }

    fn client(&self, known: &Known) -> Client {
        let secret = ClientSecret::new(owned(&self.client_secret));
        let metadata = (*known.metadata).clone();
        let methods = metadata.token_endpoint_auth_methods_supported().cloned().unwrap_or_default();
        let client = Client::from_provider_metadata(metadata, self.client_id.clone(), Some(secret))
            .set_redirect_uri(self.redirect_uri.clone());
        let has = |method| methods.contains(&method);
        if has(CoreClientAuthMethod::ClientSecretPost) && !has(CoreClientAuthMethod::ClientSecretBasic) {
            client.set_auth_type(AuthType::RequestBody)
        } else {
            client
        }
    }

    /// Returns the address where the person signs in.
    pub fn address(&self, known: &Known, login: &BegunLogin) -> String {
        let (state, nonce) = (owned(&login.state), owned(&login.secrets.nonce));
        let verifier = PkceCodeVerifier::new(owned(&login.secrets.verifier));
        let client = self.client(known);
        let (url, _, _) = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                || CsrfToken::new(state),
                || Nonce::new(nonce),
            )
            .add_scope(Scope::new("email".to_owned()))
            .add_scope(Scope::new("profile".to_owned()))
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier))
            .url();
        url.into()
    }

    /// Exchanges a code for a token, and returns what that says once it is verified.
    pub async fn identify(
        &self,
        code: &str,
        issuer: Option<&str>,
        secrets: &LoginSecrets,
        now: Time,
    ) -> Result<ProviderClaims> {
        let known = self.known(now).await?;
        let is_named = issuer.map_or(!known.names_itself, |issuer| issuer == self.issuer);
        if !is_named {
            return Err(turned_away("another issuer has answered (RFC 9207)"));
        }
        let tokens = self.exchange(&known, code, secrets).await?;
        let claims = match self.verify(&known, &tokens, secrets, now) {
            Err(Rejected::UnknownKey) => match self.keys.newer(&self.outbound, &known, now).await? {
                Some(newer) => self.verify(&newer, &tokens, secrets, now),
                None => Err(Rejected::UnknownKey),
            },
            verified => verified,
        };
        claims.map_err(|rejected| match rejected {
            Rejected::UnknownKey => turned_away("the token names a key that the provider does not have"),
            Rejected::Invalid(why) => turned_away(&why),
        })
    }

    async fn exchange(&self, known: &Known, code: &str, secrets: &LoginSecrets) -> Result<Tokens> {
        let client = self.client(known);
        let request = client.exchange_code(AuthorizationCode::new(code.to_owned()));
        let request = request.map_err(|_| broken("its discovery document names no token endpoint"))?;
        let request = request.set_pkce_verifier(PkceCodeVerifier::new(owned(&secrets.verifier)));
        request.request_async(&self.outbound).await.map_err(not_exchanged)
    }

    fn verify(
        &self,
        known: &Known,
        tokens: &Tokens,
        secrets: &LoginSecrets,
        now: Time,
    ) -> std::result::Result<ProviderClaims, Rejected> {
        let invalid = |why: &str| Rejected::Invalid(why.to_owned());
        let token = tokens.id_token().ok_or_else(|| invalid("there is no ID token"))?;
        let client = self.client(known);
        let now = Duration::from_micros(u64::try_from(now.micros()).unwrap_or_default());
        let latest = i64::try_from(now.saturating_add(SKEW).as_secs()).unwrap_or(i64::MAX);
        let verifier = client
            .id_token_verifier()
            .set_allowed_algs(ALGORITHMS)
            .set_time_fn(move || (UNIX_EPOCH + now.saturating_sub(SKEW)).into())
            .set_issue_time_verifier_fn(move |issued| {
                if issued.timestamp() <= latest {
                    Ok(())
                } else {
                    Err("it was issued later than now".to_owned())
                }
            });
        let nonce = Nonce::new(owned(&secrets.nonce));
        let claims = token.claims(&verifier, &nonce).map_err(|error| match error {
            ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey) => {
                Rejected::UnknownKey
            }
            other => Rejected::Invalid(other.to_string()),
        })?;
        if claims.authorized_party().is_some_and(|party| **party != *self.client_id) {
            return Err(invalid("it is for another authorized party"));
        }
        let begins = claims.additional_claims().nbf;
        if begins.is_some_and(|begins| begins > now.saturating_add(SKEW).as_secs_f64()) {
            return Err(invalid("it does not count yet"));
        }
        Ok(self.claims(claims))
    }

    fn claims(&self, claims: &Claims) -> ProviderClaims {
        ProviderClaims {
            issuer: self.issuer.clone(),
            subject: claims.subject().to_string(),
            email: claims.email().map(|email| email.to_string()),
            email_verified: claims.email_verified() == Some(true),
            name: claims.name().and_then(|name| name.get(None)).map(|name| name.to_string()),
        }
    }
}

/// A code that the provider does not know is the browser's fault, everything else is the provider's or ours.
fn not_exchanged(error: NotExchanged) -> Error {
    match error {
        RequestTokenError::ServerResponse(response)
            if *response.error() == CoreErrorResponseType::InvalidGrant =>
        {
            turned_away("the provider does not know the code")
        }
        RequestTokenError::ServerResponse(_) => broken("its token endpoint refuses this client"),
        RequestTokenError::Request(failed) => away(failed),
        _ => broken("its token endpoint returns no tokens"),
    }
}

/// Whatever is wrong with what a browser brings is in the server's log, and not in the response.
fn turned_away(why: &str) -> Error {
    tracing::warn!(why, "a sign-in was refused");
    refused()
}
