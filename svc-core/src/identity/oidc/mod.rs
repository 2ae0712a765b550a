//! OpenID Connect: signing in at an identity provider.
//!
//! A sign-in begins with two secrets: a state, which the browser carries to the provider and back, and a
//! browser secret, which stays in the browser's cookie. The browser must return both secrets within ten
//! minutes, and may do so once; the tables contain only their hashes. The nonce and the PKCE verifier are
//! derived from the two secrets with the key that signs cookies, and are never stored. The callback removes a
//! sign-in in the transaction that finds the sign-in, whatever the provider responds.
//!
//! Anyone can begin a sign-in, so the beginning of a sign-in writes no audit row. If a workspace has too many
//! pending sign-ins, the server deletes the oldest ones.
//!
//! The shell communicates with the provider and verifies its signatures. This folder processes the verified
//! claims: `members` finds the member, and `handle` makes the handle of a new member.

mod return_to;
mod login;
mod callback;
mod handle;
mod members;

use serde_json::json;

use crate::error::Code;
use crate::identity::member_ends::MemberRemoved;
use crate::identity::sessions::{ENDED_ROWS_RETENTION, ended_rows_chore};
use crate::log::event::{Event, EventKind};
use crate::op::{Effect, Feature, Frame, Records, changing, without_idempotency_keys, without_requests};
pub use callback::{OidcCallback, ReturnedLogin};
pub use login::{LoginSecrets, MockPerson, OidcLogin, PendingLogin};
pub use members::ProviderClaims;
pub(crate) use members::{has_signed_in, sign_in};

pub(crate) fn feature() -> Feature {
    let ended =
        ended_rows_chore("oidc_logins", ENDED_ROWS_RETENTION, ANY_EXPIRED_LOGIN, REMOVE_EXPIRED_LOGINS);
    Feature::new()
        .chore(ended)
        .projector(&[MemberRemoved::KIND], members::unlink_removed_people)
        .events(vec![EventKind::of::<members::IdentityLinked>()])
        .operations(
            "sessions",
            vec![
                changing("begin_oidc_login", Effect::Write)
                    .preflight(login::login_workspace)
                    .run(login::begin_login)
                    .title("Sign in at the identity provider")
                    .get("/auth/oidc/login")
                    .framed(Frame::OidcLogin)
                    .open_to_all()
                    .redirects()
                    .refuses(&[Code::UnknownRoute, Code::ProviderUnavailable])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "return_to": "/ui/"})),
                changing("finish_oidc_login", Effect::Destructive)
                    .preflight(callback::login_workspace)
                    .run(callback::take_login)
                    .title("Complete a sign-in at the identity provider")
                    .get("/auth/oidc/callback")
                    .framed(Frame::OidcCallback)
                    .open_to_all()
                    .redirects()
                    .refuses(&[Code::Forbidden, Code::UnknownRoute, Code::ProviderUnavailable])
                    .example(|_| json!({"state": "0123456789abcdef", "code": "of-the-provider"})),
            ],
        )
        .records(vec![
            Records::table("oidc_identities", "member_id issuer subject")
                .erased_first()
                .after("members")
                .exported_only_to_restore()
                .ids("workspace_id member_id")
                .texts("issuer subject")
                .times("linked_at")
                // A member has one identity at each identity provider.
                .proven("member_id issuer", "linked_at")
                .unproven("subject", "says who a person is elsewhere, which no event does"),
            Records::table("oidc_logins", "state_hash").erased_first().stays(),
        ])
}

without_requests! { login::OidcLogin, callback::OidcCallback }

without_idempotency_keys! {
    OidcLogin => PendingLogin,
    OidcCallback => ReturnedLogin,
}

const ANY_EXPIRED_LOGIN: &str = "select 1 from oidc_logins where expires_at <= $1 limit 1";

/// Deletes the first expired sign-ins. Uses the index of expiry times.
const REMOVE_EXPIRED_LOGINS: &str = "
    delete from oidc_logins where state_hash in (
        select state_hash from oidc_logins where expires_at <= $1 order by expires_at limit $2)";
