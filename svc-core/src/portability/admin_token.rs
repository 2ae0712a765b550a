//! The token for the administrator of an imported workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::capability::CapabilitySet;
use crate::error::Result;
use crate::id::{MemberId, TokenId, WorkspaceId};
use crate::identity::members::load_member;
use crate::identity::tokens::{self, NewToken, Quotas};
use crate::op::Write;

/// A token with which a member administers an imported workspace.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct AdminToken {
    /// The token's id.
    pub id: TokenId,
    /// The secret to send as `Authorization: Bearer`. It is returned only once and never stored.
    pub secret: String,
}

crate::request::debug_without_secret! { AdminToken }

/// Mints a token with which a member administers the imported workspace.
///
/// The token gets those capabilities of `svc.human.admin` that the caller has.
pub(super) fn mint(cx: &mut Write<'_>, workspace: WorkspaceId, member: MemberId) -> Result<AdminToken> {
    let capabilities = CapabilitySet::HumanAdmin.capabilities().intersection(cx.caller().capabilities);
    let quota_ceiling = Quotas::of_caller(cx.caller())?;
    cx.within(workspace, None, |cx| {
        let member = load_member(cx, member)?;
        let minted = tokens::issue(cx, &NewToken { quota_ceiling, ..NewToken::new(&member, capabilities) })?;
        Ok(AdminToken { id: minted.id, secret: minted.secret })
    })
}
