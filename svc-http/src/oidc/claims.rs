//! Checks and reads the claims about a person in an ID token and a UserInfo response.
//!
//! A security-relevant claim must be present and have the right type (OpenID Connect Core, 3.1.3.7). A
//! descriptive claim, such as the name, is ignored if it is not text.

use std::time::Duration;

use svc_core::ops::ProviderClaims;
use svc_core::time::Time;

use super::document::{Document, LenientBool, OneOrMoreTexts};

/// Maximum accepted difference between the provider's clock and the clock of this server.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);
/// Error message for a document of the provider that is not for this service.
const WRONG_AUDIENCE: &str = "its `aud` does not have SVC_OIDC_CLIENT_ID";

/// Identity of this service as a client of the identity provider.
pub(super) struct OidcClient {
    /// Issuer of the provider's tokens, from `SVC_OIDC_ISSUER`.
    pub issuer: String,
    /// Client id of this service at the provider, from `SVC_OIDC_CLIENT_ID`.
    pub id: String,
    /// Further audiences that an ID token may have, from `SVC_OIDC_TRUSTED_AUDIENCES`.
    pub trusted_audiences: Vec<String>,
}

impl OidcClient {
    /// Checks the payload of an ID token whose signature is verified, and returns its claims.
    pub fn check_id_token(&self, payload: &[u8], nonce: &str, now: Time) -> Result<ProviderClaims, String> {
        let claims = Document::parse(payload)?;
        self.check_issuer(&claims)?;
        self.check_audience(&claims)?;
        check_times(&claims, now)?;
        if claims.required_member::<String>("nonce")? != nonce {
            return Err("its `nonce` is not that of this sign-in".to_owned());
        }
        let email = Email::from_claims(&claims);
        Ok(ProviderClaims {
            issuer: self.issuer.clone(),
            subject: claims.required_member("sub")?,
            email_verified: email.as_ref().is_some_and(|email| email.is_verified),
            email: email.map(|email| email.address),
            name: person_name(&claims),
        })
    }

    fn check_issuer(&self, claims: &Document<'_>) -> Result<(), String> {
        if claims.required_member::<String>("iss")? == self.issuer {
            Ok(())
        } else {
            Err("its `iss` is not SVC_OIDC_ISSUER".to_owned())
        }
    }

    /// Checks that an ID token is for this client.
    ///
    /// An authorized party (`azp`) in the token must be this client. Without an authorized party, every other
    /// audience must be trusted.
    fn check_audience(&self, claims: &Document<'_>) -> Result<(), String> {
        let audiences: OneOrMoreTexts = claims.required_member("aud")?;
        if !audiences.as_slice().contains(&self.id) {
            return Err(WRONG_AUDIENCE.to_owned());
        }
        let is_trusted =
            |audience: &String| *audience == self.id || self.trusted_audiences.contains(audience);
        match claims.checked_member::<String>("azp")? {
            Some(party) if party != self.id => Err("its `azp` is not SVC_OIDC_CLIENT_ID".to_owned()),
            None if !audiences.as_slice().iter().all(is_trusted) => {
                Err("its `aud` has others than SVC_OIDC_TRUSTED_AUDIENCES, and it has no `azp`".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Checks the issuer and the audience of a signed UserInfo response, if the response contains these
    /// claims.
    pub fn check_user_info(&self, claims: &Document<'_>) -> Result<(), String> {
        if claims.checked_member::<String>("iss")?.is_some() {
            self.check_issuer(claims)?;
        }
        let audiences: Option<OneOrMoreTexts> = claims.checked_member("aud")?;
        if audiences.is_none_or(|all| all.as_slice().contains(&self.id)) {
            Ok(())
        } else {
            Err(WRONG_AUDIENCE.to_owned())
        }
    }
}

fn check_times(claims: &Document<'_>, now: Time) -> Result<(), String> {
    let now = now.micros() as f64 / 1e6;
    let earliest = now - CLOCK_SKEW_MAX.as_secs_f64();
    let latest = now + CLOCK_SKEW_MAX.as_secs_f64();
    if claims.required_member::<f64>("exp")? <= earliest {
        return Err("it has expired".to_owned());
    }
    if claims.required_member::<f64>("iat")? > latest {
        return Err("it was issued in the future".to_owned());
    }
    if claims.checked_member::<f64>("nbf")?.is_some_and(|begins| begins > latest) {
        return Err("it is not valid yet".to_owned());
    }
    Ok(())
}

/// Email address in a document, and whether that document reports the address as verified.
struct Email {
    address: String,
    is_verified: bool,
}

impl Email {
    fn from_claims(claims: &Document<'_>) -> Option<Self> {
        let address = claims.optional_member::<String>("email").filter(|address| !address.is_empty())?;
        let verified: Option<LenientBool> = claims.optional_member("email_verified");
        Some(Self { address, is_verified: verified.is_some_and(|verified| verified.is_true()) })
    }
}

fn person_name(claims: &Document<'_>) -> Option<String> {
    claims.optional_member::<String>("name").filter(|name| !name.trim().is_empty())
}

/// Adds the email and the name in a UserInfo response to the claims of an ID token that lacks them.
///
/// Fails if the response has another subject than the ID token. A response without a subject adds nothing.
pub(super) fn add_user_info(claims: &mut ProviderClaims, user_info: &Document<'_>) -> Result<(), String> {
    let Some(subject) = user_info.checked_member::<String>("sub")? else {
        tracing::info!("the UserInfo answer has no `sub`, so it adds no claim");
        return Ok(());
    };
    if subject != claims.subject {
        return Err("its `sub` is not that of the ID token".to_owned());
    }
    if claims.email.is_none()
        && let Some(email) = Email::from_claims(user_info)
    {
        claims.email_verified = email.is_verified;
        claims.email = Some(email.address);
    }
    if claims.name.is_none() {
        claims.name = person_name(user_info);
    }
    Ok(())
}
