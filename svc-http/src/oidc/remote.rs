//! Client of a real provider: the authorization code flow with PKCE, and the claims from ID token and
//! UserInfo.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, StatusCode};
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use svc_core::config::{OidcConfig, OidcProvider};
use svc_core::hash::sha256;
use svc_core::ops::{BegunLogin, LoginSecrets, ProviderClaims};
use svc_core::time::Time;
use svc_core::{Error, Result};

use super::claims::{Client, add_user_info};
use super::document::{Document, DocumentKind};
use super::key_set::Token;
use super::keys::{ProviderCache, unusable};
use super::sign_in_refused;
use super::tokens::{CodeExchange, TokenAnswer};
use crate::outbound::{AllowedServers, OutboundClient};

pub(super) use super::keys::ProviderKeys;

/// Media type of a signed UserInfo response (OpenID Connect Core, 5.3.2).
const SIGNED: &[u8] = b"application/jwt";

/// A real provider, with the credentials of this service as its client.
pub(super) struct RemoteProvider {
    client: Client,
    client_secret: SecretString,
    redirect_uri: String,
    scopes: String,
    outbound: OutboundClient,
    keys: ProviderCache,
}

/// A person identified by a verified ID token, with the credentials for the UserInfo endpoint.
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
            client: Client {
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

    pub async fn known(&self, now: Time) -> Result<ProviderKeys> {
        self.keys.known(&self.outbound, now).await
    }

    /// Returns the URL at which the person signs in.
    pub fn address(&self, known: &ProviderKeys, login: &BegunLogin) -> String {
        let secrets = &login.secrets;
        let challenge = sha256(secrets.verifier.expose_secret().as_bytes());
        let mut url = known.discovery.authorization_endpoint.clone();
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

    /// Exchanges a code for an ID token, verifies the token, and returns its claims.
    pub async fn identify(
        &self,
        code: &str,
        issuer: Option<&str>,
        secrets: &LoginSecrets,
        now: Time,
    ) -> Result<VerifiedPerson> {
        let known = self.known(now).await?;
        let names_itself = known.discovery.names_itself;
        if !issuer.map_or(!names_itself, |issuer| issuer == self.client.issuer) {
            return Err(sign_in_refused(
                DocumentKind::Callback,
                "its `iss` is not SVC_OIDC_ISSUER, or is missing (RFC 9207)",
            ));
        }
        let tokens = self.exchange(&known, code, secrets).await?;
        let id_token = tokens.id_token.expose_secret();
        let payload = self.verified(&known, DocumentKind::IdToken, id_token, now).await?;
        let claims = self.client.check_id_token(&payload, secrets.nonce.expose_secret(), now);
        let claims = claims.map_err(|why| sign_in_refused(DocumentKind::IdToken, &why))?;
        Ok(VerifiedPerson { claims, known, access_token: tokens.access_token })
    }

    async fn exchange(
        &self,
        known: &ProviderKeys,
        code: &str,
        secrets: &LoginSecrets,
    ) -> Result<TokenAnswer> {
        let exchange = CodeExchange {
            endpoint: &known.discovery.token_endpoint,
            client_id: &self.client.id,
            client_secret: &self.client_secret,
            takes_secret_in_body: known.discovery.takes_secret_in_body,
            redirect_uri: &self.redirect_uri,
            code,
            verifier: &secrets.verifier,
        };
        let response = self.outbound.send(exchange.request()?).await;
        let response = response.map_err(|failed| unusable(DocumentKind::Tokens, failed))?;
        TokenAnswer::read(response.status(), response.body())
    }

    /// Verifies a token with the provider's keys and returns its payload. Fetches newer keys if necessary.
    async fn verified(
        &self,
        known: &ProviderKeys,
        kind: DocumentKind,
        token: &str,
        now: Time,
    ) -> Result<Vec<u8>> {
        let token = Token::read(token).map_err(|why| sign_in_refused(kind, &why))?;
        if let Some(payload) = token.verified(&known.keys) {
            return Ok(payload.to_vec());
        }
        let newer = self.keys.newer(&self.outbound, known, now).await?;
        let payload = newer.as_ref().and_then(|newer| token.verified(&newer.keys));
        payload.map(<[u8]>::to_vec).ok_or_else(|| sign_in_refused(kind, "no key of the provider verifies it"))
    }

    /// Returns the claims of a person, including those that the UserInfo endpoint adds.
    ///
    /// Fails if that endpoint does not respond, so that no person joins without the email that it would have
    /// returned.
    pub async fn complete(&self, vouched: VerifiedPerson, now: Time) -> Result<ProviderClaims> {
        let VerifiedPerson { mut claims, known, access_token } = vouched;
        let (Some(endpoint), Some(token)) = (&known.discovery.userinfo_endpoint, access_token) else {
            tracing::info!("the ID token has no email, and there is no UserInfo to ask for it");
            return Ok(claims);
        };
        let Ok(mut bearer) = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())) else {
            tracing::warn!(document = %DocumentKind::Tokens, "its `access_token` cannot be sent to UserInfo");
            return Ok(claims);
        };
        bearer.set_sensitive(true);
        let broken = |why: String| unusable(DocumentKind::UserInfo, why);
        let request = Request::get(endpoint.as_str())
            .header(ACCEPT, "application/json, application/jwt;q=0.5")
            .header(AUTHORIZATION, bearer)
            .body(Vec::new())
            .map_err(|error| unusable(DocumentKind::Discovery, error))?;
        let response = self.outbound.send(request).await;
        let response = response.map_err(|failed| unusable(DocumentKind::UserInfo, failed))?;
        if response.status() != StatusCode::OK {
            return Err(broken(format!("its status is {}", response.status())));
        }
        let media_type = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let is_signed = media_type.get(..SIGNED.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(SIGNED));
        let mut body = response.into_body();
        if is_signed {
            let token = std::str::from_utf8(&body).map_err(|_| broken("it is not UTF-8".to_owned()))?;
            body = self.verified(&known, DocumentKind::UserInfo, token.trim(), now).await?;
        }
        let answer = Document::read(&body).map_err(broken)?;
        let checked = if is_signed { self.client.check_user_info(&answer) } else { Ok(()) };
        let added = checked.and_then(|()| add_user_info(&mut claims, &answer));
        added.map_err(|why| sign_in_refused(DocumentKind::UserInfo, &why))?;
        Ok(claims)
    }
}
