//! Rules for granting and revoking authority, which compare the capabilities of the caller and of a token.
//!
//! A token administrator (a caller with `token:admin`) can grant its own capabilities and those of a worker:
//! by minting a token, by adding an agent, or by rotating another member's token, which passes on the token's
//! authority. An administrator can revoke every token of its workspace, including tokens with more
//! capabilities than its own. Only a caller with the same instance-wide capabilities can revoke a token with
//! instance-wide capabilities. Any other caller can see only the token that it calls with.
//!
//! An administrator can also let one member act for another, by a delegation grant. The grant contains only
//! capabilities of a worker that the administrator has. A token that a delegate receives for the grant has
//! only capabilities that both the grant and the delegate's own token have.
//!
//! Nothing in this file reads or writes the database.

use crate::capability::Capability::{
    ArtifactUpload, AuditReadGlobal, EventSubscribe, MessagePost, OperatorGlobal, SearchQuery,
    ThreadTransition, TokenAdmin, WorkspaceRead, WorkspaceWrite,
};
use crate::capability::{Capabilities, Capability, CapabilitySet};
use crate::error::{Error, Result};
use crate::id::{MemberId, TokenId};
use crate::op::Caller;

/// Fails if a token administrator grants capabilities that neither the administrator nor a worker has.
pub(super) fn check_may_grant(held: Capabilities, requested: Capabilities) -> Result<()> {
    check_has_capabilities(held.union(CapabilitySet::AgentWorker.capabilities()), requested)
}

/// Fails if a caller grants one of the `requested` capabilities that is not among the caller's own, `held`.
pub(super) fn check_has_capabilities(held: Capabilities, requested: Capabilities) -> Result<()> {
    match missing_capability_names(held, requested) {
        None => Ok(()),
        Some(names) => Err(Error::forbidden(format!("you cannot grant what you do not hold: {names}"))),
    }
}

/// Fails if a token of an app would have a capability that the app's installation was not granted.
pub(super) fn check_within_installation(granted: Capabilities, requested: Capabilities) -> Result<()> {
    match missing_capability_names(granted, requested) {
        None => Ok(()),
        Some(names) => Err(Error::forbidden(format!("the installation was not granted {names}"))),
    }
}

/// Fails if a derived token would have the capability `token:admin`, or one that its parent token lacks.
/// `held` contains the capabilities of the parent token.
pub(super) fn check_may_derive(held: Capabilities, requested: Capabilities) -> Result<()> {
    if requested.has(TokenAdmin) {
        return Err(Error::forbidden("a derived token cannot carry token:admin"));
    }
    check_has_capabilities(held, requested)
}

/// Fails if a delegation grant would lend a capability that cannot be lent or that the administrator lacks.
pub(super) fn check_may_lend(held: Capabilities, requested: Capabilities) -> Result<()> {
    if let Some(names) = missing_capability_names(LENDABLE_CAPABILITIES.iter().copied().collect(), requested)
    {
        return Err(Error::in_field("capabilities", format!("a delegation grant cannot lend {names}")));
    }
    check_has_capabilities(held, requested)
}

/// Capabilities that a delegation grant can lend: those for a member's work, without administration and
/// approvals.
pub(super) const LENDABLE_CAPABILITIES: [Capability; 7] = [
    WorkspaceRead,
    WorkspaceWrite,
    MessagePost,
    ThreadTransition,
    ArtifactUpload,
    SearchQuery,
    EventSubscribe,
];

/// Returns the capabilities of the token that a delegate receives for a grant with the capabilities
/// `grant_capabilities`.
///
/// `delegate_capabilities` are those of the delegate's own token. Returns `requested`, or all capabilities
/// that both the grant and the delegate have if `requested` is `None`. Fails if the grant or the delegate
/// lacks a requested capability, or if they have no capability in common.
pub(super) fn exchanged_capabilities(
    grant_capabilities: Capabilities,
    delegate_capabilities: Capabilities,
    requested: Option<Capabilities>,
) -> Result<Capabilities> {
    let both = grant_capabilities.intersection(delegate_capabilities);
    if both == Capabilities::NONE {
        return Err(Error::forbidden("your token carries nothing of what the grant lends"));
    }
    let exchanged = requested.unwrap_or(both);
    match missing_capability_names(both, exchanged) {
        None => Ok(exchanged),
        Some(names) => Err(Error::forbidden(format!("the grant or your token does not carry {names}"))),
    }
}

/// Returns whether the caller may see a token of its workspace.
///
/// If the caller may not, the service reports the token as not found.
pub(super) fn may_see_token(caller: &Caller, token: TokenId) -> bool {
    caller.token_id == Some(token) || caller.capabilities.has(TokenAdmin)
}

/// Fails unless the token to rotate is the caller's own, or one that the caller could have minted.
pub(super) fn check_may_rotate(
    caller: &Caller,
    token: TokenId,
    token_capabilities: Capabilities,
) -> Result<()> {
    if caller.token_id == Some(token) {
        Ok(())
    } else {
        check_may_grant(caller.capabilities, token_capabilities)
    }
}

/// Fails if the caller revokes a token with instance-wide capabilities that the caller's token lacks.
///
/// Without this rule, the administrator of one workspace could lock out the operator of the instance. A token
/// may always revoke itself.
pub(super) fn check_may_revoke(
    caller: &Caller,
    token: TokenId,
    token_capabilities: Capabilities,
) -> Result<()> {
    if caller.token_id == Some(token) {
        return Ok(());
    }
    let beyond: Capabilities = [OperatorGlobal, AuditReadGlobal].into_iter().collect();
    match missing_capability_names(caller.capabilities, token_capabilities.intersection(beyond)) {
        None => Ok(()),
        Some(names) => Err(Error::forbidden(format!(
            "the token reaches beyond the workspace: that takes a token that carries {names}"
        ))),
    }
}

/// Fails with 403 `forbidden` if the caller is `member`. `action` describes the action that only other
/// members may perform.
///
/// Under delegation, both the member that the caller acts as and the delegate count as the caller.
pub(crate) fn check_is_not_caller(caller: &Caller, member: MemberId, action: &str) -> Result<()> {
    if caller.member == Some(member) || caller.actor == Some(member) {
        return Err(Error::forbidden(format!("a member cannot {action}")));
    }
    Ok(())
}

/// Returns the names of the capabilities in `requested` that `held` lacks, joined by commas.
///
/// Returns `None` if `held` contains all capabilities in `requested`.
fn missing_capability_names(held: Capabilities, requested: Capabilities) -> Option<String> {
    let lacking = requested.iter().filter(|capability| !held.has(*capability));
    let names: Vec<&str> = lacking.map(Capability::name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::error::Code;
    use crate::id::WorkspaceId;

    fn set(capabilities: &[Capability]) -> Capabilities {
        capabilities.iter().copied().collect()
    }

    fn id(n: u128) -> TokenId {
        Uuid::from_u128(n).into()
    }

    fn caller(n: u128, capabilities: Capabilities) -> Caller {
        let mut caller = Caller::instance(WorkspaceId::INSTANCE);
        caller.token_id = Some(id(n));
        caller.capabilities = capabilities;
        caller
    }

    #[test]
    fn an_administrator_grants_what_it_holds_and_what_a_worker_holds() {
        let worker = CapabilitySet::AgentWorker.capabilities();
        let narrow = set(&[TokenAdmin]);
        let cases = [
            (worker, true),
            (worker.union(narrow), true),
            (set(&[Capability::SecretRead]), false),
            (CapabilitySet::HumanAdmin.capabilities(), false),
            (set(&[OperatorGlobal]), false),
        ];
        for (wanted, allowed) in cases {
            assert_eq!(check_may_grant(narrow, wanted).is_ok(), allowed, "{wanted:?}");
            let taken = check_may_rotate(&caller(1, narrow), id(2), wanted);
            assert_eq!(taken.is_ok(), allowed, "{wanted:?} by rotation");
        }
        assert!(check_may_rotate(&caller(2, narrow), id(2), Capabilities::all()).is_ok(), "itself");
        let admin = CapabilitySet::HumanAdmin.capabilities();
        let refusal = check_may_grant(admin, Capabilities::all()).unwrap_err();
        assert_eq!(refusal.code(), Code::Forbidden);
        assert!(refusal.detail().contains("operator:global, audit:read-global"), "{}", refusal.detail());
    }

    #[test]
    fn a_derived_token_is_narrower() {
        let all = Capabilities::all();
        assert!(check_may_derive(all, all.without(TokenAdmin)).is_ok());
        assert!(check_may_derive(all, set(&[TokenAdmin])).is_err());
        assert!(check_may_derive(set(&[TokenAdmin]), CapabilitySet::AgentWorker.capabilities()).is_err());
    }

    #[test]
    fn a_grant_lends_seven_capabilities_that_its_administrator_holds() {
        let lendable: Capabilities = LENDABLE_CAPABILITIES.into_iter().collect();
        for capability in Capability::ALL {
            let wanted = set(&[*capability]);
            let can_lend = lendable.has(*capability);
            let by_all = check_may_lend(Capabilities::all(), wanted).map_err(|error| error.code());
            assert_eq!(by_all, if can_lend { Ok(()) } else { Err(Code::Malformed) }, "{capability:?}");
            let by_others = check_may_lend(Capabilities::all().without(*capability), wanted);
            let refusal = if can_lend { Code::Forbidden } else { Code::Malformed };
            assert_eq!(by_others.unwrap_err().code(), refusal, "{capability:?}");
        }
        let narrow = set(&[TokenAdmin]);
        assert!(check_may_lend(narrow, set(&[Capability::WorkspaceRead])).is_err(), "though it can mint it");
    }

    #[test]
    fn an_exchanged_token_carries_what_grant_and_delegate_do() {
        let both = set(&[Capability::WorkspaceRead, Capability::MessagePost]);
        let read = both.without(Capability::MessagePost);
        let post = both.without(Capability::WorkspaceRead);
        // Each case: the grant, the delegate's capabilities, the requested capabilities, and the outcome.
        let table = [
            (both, both, None, Some(both)),
            (both, read, None, Some(read)),
            (read, Capabilities::all(), None, Some(read)),
            (both, both, Some(post), Some(post)),
            (read, both, Some(both), None),
            (both, read, Some(both), None),
            (read, post, None, None),
            (read, post, Some(read), None),
        ];
        for (grant, held, asked, wanted) in table {
            let found = exchanged_capabilities(grant, held, asked).map_err(|error| error.code());
            assert_eq!(found, wanted.ok_or(Code::Forbidden), "{grant:?} {held:?} {asked:?}");
        }
    }

    #[test]
    fn a_member_without_token_admin_sees_only_its_own_tokens() {
        let worker = caller(1, CapabilitySet::AgentWorker.capabilities());
        assert!(may_see_token(&worker, id(1)) && !may_see_token(&worker, id(2)));
        assert!(may_see_token(&caller(1, set(&[TokenAdmin])), id(2)));
    }

    #[test]
    fn a_token_with_authority_beyond_the_workspace_is_revoked_by_an_equal_one() {
        let admin = CapabilitySet::HumanAdmin.capabilities();
        assert!(check_may_revoke(&caller(1, set(&[TokenAdmin])), id(2), admin).is_ok(), "a wider one");
        for beyond in [OperatorGlobal, AuditReadGlobal] {
            let wide = set(&[beyond]);
            assert!(check_may_revoke(&caller(1, admin), id(2), wide).is_err(), "{beyond:?}");
            assert!(check_may_revoke(&caller(2, admin), id(2), wide).is_ok(), "itself");
            assert!(check_may_revoke(&caller(1, admin.union(wide)), id(2), wide).is_ok(), "the same");
            assert!(check_may_revoke(&caller(1, admin.union(wide)), id(2), Capabilities::all()).is_err());
        }
        let instance = Caller::instance(WorkspaceId::INSTANCE);
        assert!(check_may_revoke(&instance, id(2), Capabilities::all()).is_ok());
    }
}
