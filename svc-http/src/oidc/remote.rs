//! Implements the client of a real provider: the authorization code flow with PKCE, and the claims from ID
//! token and UserInfo.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, StatusCode};
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use svc_core::config::{OidcConfig, OidcProvider};
use svc_core::hash::sha256;
use svc_core::ops::{LoginSecrets, PendingLogin, ProviderClaims};
use svc_core::time::Time;
use svc_core::{Error, Result};

use super::claims::{OidcClient, add_user_info};
use super::document::{Document, DocumentKind};
use super::key_set::Token;
use super::keys::{ProviderCache, provider_unavailable_error};
use super::sign_in_refused_error;
use super::tokens::{CodeExchange, TokenResponse};
use crate::outbound::{AllowedServers, OutboundClient};

pub(super) use super::keys::ProviderKeys;

/// Media type of a signed UserInfo response (OpenID Connect Core, 5.3.2).
const SIGNED_MEDIA_TYPE: &[u8] = b"application/jwt";

/// Real identity provider, with the credentials of this service as a client of the provider.
pub(super) struct RemoteProvider {
    client: OidcClient,
    client_secret: SecretString,
    redirect_uri: String,
    scopes: String,
    outbound: OutboundClient,
    keys: ProviderCache,
}

/// Person identified by a verified ID token, with the access token for the UserInfo endpoint.
pub(super) struct VerifiedPerson {
    pub claims: ProviderClaims,
    known: ProviderKeys,
    access_token: Option<SecretString>,
}

impl RemoteProvider {
    pub fn new(config: &OidcConfig) -> Result<Self> {
        let OidcProvider::At {
            issuer,
            client_id,
            client_secret,
            allow_loopback_http,
            scopes,
            trusted_audiences,
        } = &config.provider
        else {
            return Err(Error::internal("the mock is not a remote provider"));
        };
        let wrong = |name: &str| Error::configuration(format!("{name} is not an address"));
        let host = Url::parse(issuer).ok().and_then(|url| url.host_str().map(str::to_owned));
        let private_host = Some(host.ok_or_else(|| wrong("SVC_OIDC_ISSUER"))?);
        let redirect_uri = config.redirect_uri.clone().filter(|uri| Url::parse(uri).is_ok());
        let loopback_http = *allow_loopback_http;
        let outbound =
            OutboundClient::new(AllowedServers { private_host, loopback_http, ..AllowedServers::default() });
        Ok(Self {
            client: OidcClient {
                issuer: issuer.clone(),
                id: client_id.clone(),
                trusted_audiences: trusted_audiences.clone(),
            },
            client_secret: client_secret.clone(),
            redirect_uri: redirect_uri.ok_or_else(|| wrong("SVC_OIDC_REDIRECT_URI"))?,
            scopes: scopes.clone(),
            outbound: outbound.map_err(Error::internal)?,
            keys: ProviderCache::new(issuer.clone()),
        })
    }

    pub async fn provider_keys(&self, now: Time) -> Result<ProviderKeys> {
        self.keys.get_or_fetch(&self.outbound, now).await
    }

    /// Returns the provider's URL at which the person signs in.
    pub fn sign_in_url(&self, provider_keys: &ProviderKeys, login: &PendingLogin) -> String {
        let secrets = &login.secrets;
        let challenge = sha256(secrets.verifier.expose_secret().as_bytes());
        let mut url = provider_keys.discovery.authorization_endpoint.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client.id)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("scope", &self.scopes)
            .append_pair("state", login.state.expose_secret())
            .append_pair("nonce", secrets.nonce.expose_secret())
            .append_pair("code_challenge", &URL_SAFE_NO_PAD.encode(challenge))
            .append_pair("code_challenge_method", "S256");
        url.into()
    }

    /// Exchanges an authorization code for an ID token, verifies the token, and returns its claims.
    pub async fn identify(
        &self,
        code: &str,
        issuer: Option<&str>,
        secrets: &LoginSecrets,
        now: Time,
    ) -> Result<VerifiedPerson> {
        let known = self.provider_keys(now).await?;
        let sends_issuer = known.discovery.sends_issuer;
        if !issuer.map_or(!sends_issuer, |issuer| issuer == self.client.issuer) {
            return Err(sign_in_refused_error(
                DocumentKind::Callback,
                "its `iss` is not SVC_OIDC_ISSUER, or is missing (RFC 9207)",
            ));
        }
        let tokens = self.exchange_code(&known, code, secrets).await?;
        let id_token = tokens.id_token.expose_secret();
        let payload = self.verified_payload(&known, DocumentKind::IdToken, id_token, now).await?;
        let claims = self.client.check_id_token(&payload, secrets.nonce.expose_secret(), now);
        let claims = claims.map_err(|why| sign_in_refused_error(DocumentKind::IdToken, &why))?;
        Ok(VerifiedPerson { claims, known, access_token: tokens.access_token })
    }

    async fn exchange_code(
        &self,
        provider_keys: &ProviderKeys,
        code: &str,
        secrets: &LoginSecrets,
    ) -> Result<TokenResponse> {
        let exchange = CodeExchange {
            endpoint: &provider_keys.discovery.token_endpoint,
            client_id: &self.client.id,
            client_secret: &self.client_secret,
            requires_secret_in_body: provider_keys.discovery.requires_secret_in_body,
            redirect_uri: &self.redirect_uri,
            code,
            verifier: &secrets.verifier,
        };
        let response = self.outbound.send(exchange.to_request()?).await;
        let response = response.map_err(|failed| provider_unavailable_error(DocumentKind::Tokens, failed))?;
        TokenResponse::parse(response.status(), response.body())
    }

    /// Verifies a token with the provider's keys, and returns the token's payload. Fetches newer keys if
    /// necessary.
    async fn verified_payload(
        &self,
        provider_keys: &ProviderKeys,
        kind: DocumentKind,
        token: &str,
        now: Time,
    ) -> Result<Vec<u8>> {
        let token = Token::parse(token).map_err(|why| sign_in_refused_error(kind, &why))?;
        if let Some(payload) = token.verified_payload(&provider_keys.keys) {
            return Ok(payload.to_vec());
        }
        let newer = self.keys.fetch_newer(&self.outbound, provider_keys, now).await?;
        let payload = newer.as_ref().and_then(|newer| token.verified_payload(&newer.keys));
        payload
            .map(<[u8]>::to_vec)
            .ok_or_else(|| sign_in_refused_error(kind, "no key of the provider verifies it"))
    }

    /// Returns the claims of a person, with the email and the name from the UserInfo endpoint if necessary.
    ///
    /// Fails if the UserInfo endpoint does not respond. Otherwise a person could join without the email that
    /// the endpoint would have returned.
    pub async fn complete_claims(&self, person: VerifiedPerson, now: Time) -> Result<ProviderClaims> {
        let VerifiedPerson { mut claims, known, access_token } = person;
        let (Some(endpoint), Some(token)) = (&known.discovery.userinfo_endpoint, access_token) else {
            tracing::info!("the ID token has no email, and no UserInfo endpoint can be queried");
            return Ok(claims);
        };
        let Ok(mut bearer) = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())) else {
            tracing::warn!(document = %DocumentKind::Tokens, "its `access_token` cannot be sent to UserInfo");
            return Ok(claims);
        };
        bearer.set_sensitive(true);
        let broken = |why: String| provider_unavailable_error(DocumentKind::UserInfo, why);
        let request = Request::get(endpoint.as_str())
            .header(ACCEPT, "application/json, application/jwt;q=0.5")
            .header(AUTHORIZATION, bearer)
            .body(Vec::new())
            .map_err(|error| provider_unavailable_error(DocumentKind::Discovery, error))?;
        let response = self.outbound.send(request).await;
        let response =
            response.map_err(|failed| provider_unavailable_error(DocumentKind::UserInfo, failed))?;
        if response.status() != StatusCode::OK {
            return Err(broken(format!("its status is {}", response.status())));
        }
        let media_type = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let is_signed = media_type
            .get(..SIGNED_MEDIA_TYPE.len())
            .is_some_and(|kind| kind.eq_ignore_ascii_case(SIGNED_MEDIA_TYPE));
        let mut body = response.into_body();
        if is_signed {
            let token = std::str::from_utf8(&body).map_err(|_| broken("it is not UTF-8".to_owned()))?;
            body = self.verified_payload(&known, DocumentKind::UserInfo, token.trim(), now).await?;
        }
        let answer = Document::parse(&body).map_err(broken)?;
        let checked = if is_signed { self.client.check_user_info(&answer) } else { Ok(()) };
        let added = checked.and_then(|()| add_user_info(&mut claims, &answer));
        added.map_err(|why| sign_in_refused_error(DocumentKind::UserInfo, &why))?;
        Ok(claims)
    }
}
