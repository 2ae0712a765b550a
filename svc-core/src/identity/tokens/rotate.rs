//! Rotating: replacing the secret of a token without any other change.
//!
//! The old secret stops working in the same transaction.

use secrecy::ExposeSecret;
use serde::Serialize;
use serde_json::json;

use super::mint::new_secret;
use super::{MintedToken, Quotas, Token, TokenRotated, load_token, token_not_found_error};
use crate::error::{Error, Result};
use crate::id::TokenId;
use crate::identity::authority;
use crate::log::event::Subject;
use crate::op::{Read, Write, secret_hash};
use crate::request::request;
use crate::time::Time;

request! {
    /// Replaces a token's secret, and returns the token with the new `secret`, which is shown only once.
    ///
    /// The old secret stops working immediately. The token's member, capabilities, expiry and derived tokens
    /// do not change. You can rotate the token that you call with. With `token:admin`, you can rotate any
    /// token of your workspace that you could have minted.
    ///
    /// Fails with 403 `forbidden` if you do not call with the token to rotate, and the token has capabilities
    /// or quotas that you cannot grant; 404 `not-found` if you do not call with the token to rotate, and you
    /// lack `token:admin`; 409 `wrong-state` if the token is delegated, has expired or was revoked.
    #[derive(Serialize)]
    pub(super) struct RotateToken {
        /// The token to rotate. Default: the token that you call with.
        token_id: Option<TokenId>,
    }

    rotate_token() -> MintedToken
}

const SET_SECRET: &str = "update tokens set secret_hash = $2 where id = $1";

pub(super) fn rotate_token(cx: &mut Write<'_>, input: &RotateToken) -> Result<MintedToken> {
    let token = load_token_to_rotate(cx, input.token_id)?;
    check_can_rotate(&token, cx.now())?;
    let secret = new_secret(cx)?;
    let event = TokenRotated { token_id: token.id, member_id: token.member_id };
    cx.emit(Subject::WORKSPACE.about(token.member_id), &event)?;
    cx.execute(1, SET_SECRET, &[&token.id, &secret_hash(&secret)])?;
    cx.audit("token.rotate", json!(event))?;
    Ok(MintedToken {
        id: token.id,
        secret: secret.expose_secret().to_owned(),
        member_id: token.member_id,
        label: token.label,
        capabilities: token.capabilities,
        created_at: token.created_at,
        expires_at: token.expires_at,
        parent_id: token.parent_id,
        quotas: token.quotas,
    })
}

/// Loads the token to rotate. Fails if the caller may not rotate the token.
fn load_token_to_rotate(cx: &Read<'_>, requested_id: Option<TokenId>) -> Result<Token> {
    let caller = cx.caller();
    let without = || Error::forbidden("name the token: the request has none of its own");
    let token_id = requested_id.or(caller.token_id).ok_or_else(without)?;
    if !authority::may_see_token(caller, token_id) {
        return Err(token_not_found_error());
    }
    let token = load_token(cx, token_id)?;
    authority::check_may_rotate(caller, token.id, token.capabilities)?;
    Quotas::check_may_rotate(caller.quota, token.quotas)?;
    Ok(token)
}

/// Fails if the token is delegated, has expired or was revoked.
fn check_can_rotate(token: &Token, now: Time) -> Result<()> {
    if token.delegation_grant_id.is_some() {
        return Err(Error::wrong_state("a delegated token cannot be rotated; only its grant gives another"));
    }
    if token.revoked_at.is_some() || token.expires_at.is_some_and(|end| end <= now) {
        return Err(Error::wrong_state("the token has expired or was revoked; mint another"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Capabilities;
    use crate::error::Code;
    use crate::identity::tokens::tests::{at, code};

    fn token(n: u128, capabilities: Capabilities) -> Token {
        Token {
            id: uuid::Uuid::from_u128(n).into(),
            member_id: uuid::Uuid::from_u128(9).into(),
            label: None,
            capabilities,
            created_at: at(0),
            expires_at: Some(at(100)),
            revoked_at: None,
            parent_id: None,
            delegation_grant_id: None,
            installation_id: None,
            quotas: None,
            lsn: 3,
        }
    }

    #[test]
    fn an_ended_or_delegated_token_cannot_be_rotated() {
        let whole = token(1, Capabilities::all());
        assert!(check_can_rotate(&whole, at(99)).is_ok());
        assert_eq!(code(check_can_rotate(&whole, at(100))), Code::WrongState);
        let revoked = Token { revoked_at: Some(at(1)), ..token(1, Capabilities::all()) };
        assert_eq!(code(check_can_rotate(&revoked, at(2))), Code::WrongState);
        let borrowed = Token { delegation_grant_id: Some(uuid::Uuid::from_u128(4).into()), ..whole };
        assert_eq!(code(check_can_rotate(&borrowed, at(2))), Code::WrongState);
    }
}
