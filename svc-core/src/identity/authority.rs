//! The rules for granting and revoking authority, by the capabilities of the caller and of the token.
//!
//! An administrator of tokens (`token:admin`) can grant its own capabilities and those of a worker: by
//! minting a token, by adding an agent, or by rotating another member's token, which passes on the token's
//! authority. It can revoke every token of its workspace, including tokens with more capabilities than its
//! own; but a token that reaches beyond the workspace can be revoked only by a caller that reaches as far.
//! Any other caller can see only the token that it calls with.
//!
//! An administrator can also let one member act for another, by a grant that carries some of a worker's
//! capabilities and none that the administrator lacks. A token that is exchanged for a grant carries the
//! capabilities that both the grant and the delegate's token have.
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

/// Fails if an administrator of tokens grants capabilities that neither it nor a worker holds.
pub(super) fn check_grants(held: Capabilities, wanted: Capabilities) -> Result<()> {
    check_holds(held.union(CapabilitySet::AgentWorker.capabilities()), wanted)
}

/// Fails if a caller grants a capability that it does not hold.
pub(super) fn check_holds(held: Capabilities, wanted: Capabilities) -> Result<()> {
    match missing_names(held, wanted) {
        None => Ok(()),
        Some(names) => Err(Error::forbidden(format!("you cannot grant what you do not hold: {names}"))),
    }
}

/// Fails if a token of an app would carry a capability that its installation was not granted.
pub(super) fn check_within_installation(granted: Capabilities, wanted: Capabilities) -> Result<()> {
    match missing_names(granted, wanted) {
        None => Ok(()),
        Some(names) => Err(Error::forbidden(format!("the installation was not granted {names}"))),
    }
}

/// Fails if a derived token would carry a capability that its parent lacks, or `token:admin`.
pub(super) fn check_derives(held: Capabilities, wanted: Capabilities) -> Result<()> {
    if wanted.has(TokenAdmin) {
        return Err(Error::forbidden("a derived token cannot carry token:admin"));
    }
    check_holds(held, wanted)
}

/// Fails if a delegation grant would lend a capability that cannot be lent or that the granting administrator
/// lacks.
pub(super) fn check_lends(held: Capabilities, wanted: Capabilities) -> Result<()> {
    if let Some(names) = missing_names(LENDABLE.iter().copied().collect(), wanted) {
        return Err(Error::in_field("capabilities", format!("a delegation grant cannot lend {names}")));
    }
    check_holds(held, wanted)
}

/// Capabilities that a delegation grant can lend: those for a member's work, but none for administration or
/// approvals.
pub(super) const LENDABLE: [Capability; 7] = [
    WorkspaceRead,
    WorkspaceWrite,
    MessagePost,
    ThreadTransition,
    ArtifactUpload,
    SearchQuery,
    EventSubscribe,
];

/// Returns the capabilities of the token that a delegate with the capabilities `held` gets for a grant.
///
/// Returns `asked`, or without it all capabilities that both the grant and the delegate have. Fails if the
/// grant or the delegate lacks a requested capability.
pub(super) fn exchanged_capabilities(
    grant: Capabilities,
    held: Capabilities,
    asked: Option<Capabilities>,
) -> Result<Capabilities> {
    let both = grant.intersection(held);
    if both == Capabilities::NONE {
        return Err(Error::forbidden("your token carries nothing of what the grant lends"));
    }
    let wanted = asked.unwrap_or(both);
    match missing_names(both, wanted) {
        None => Ok(wanted),
        Some(names) => Err(Error::forbidden(format!("the grant or your token does not carry {names}"))),
    }
}

/// Returns whether the caller may see a token of its workspace. If not, the service treats the token as not
/// found.
pub(super) fn may_see_token(caller: &Caller, token: TokenId) -> bool {
    caller.token_id == Some(token) || caller.capabilities.has(TokenAdmin)
}

/// Fails if the caller rotates a token other than its own that it could not have minted.
pub(super) fn check_takes_over(caller: &Caller, token: TokenId, carries: Capabilities) -> Result<()> {
    if caller.token_id == Some(token) { Ok(()) } else { check_grants(caller.capabilities, carries) }
}

/// Fails if the caller revokes a token that reaches further beyond the workspace than the caller's own token.
///
/// Otherwise the administrator of one workspace could lock out the operator of the instance. A token may
/// always revoke itself.
pub(super) fn check_revokes(caller: &Caller, token: TokenId, carries: Capabilities) -> Result<()> {
    if caller.token_id == Some(token) {
        return Ok(());
    }
    let beyond: Capabilities = [OperatorGlobal, AuditReadGlobal].into_iter().collect();
    match missing_names(caller.capabilities, carries.intersection(beyond)) {
        None => Ok(()),
        Some(names) => Err(Error::forbidden(format!(
            "the token reaches beyond the workspace: that takes a token that carries {names}"
        ))),
    }
}

/// Fails if the caller is `member` itself, for an action that only others may perform, described by `does`.
///
/// Under delegation, both the member that the caller acts as and the delegate count as the caller.
pub(crate) fn check_is_other(caller: &Caller, member: MemberId, does: &str) -> Result<()> {
    if caller.member == Some(member) || caller.actor == Some(member) {
        return Err(Error::forbidden(format!("a member cannot {does}")));
    }
    Ok(())
}

/// Returns the names of the wanted capabilities that `held` lacks, joined by commas, or `None` if `held`
/// covers `wanted`.
fn missing_names(held: Capabilities, wanted: Capabilities) -> Option<String> {
    let lacking = wanted.iter().filter(|capability| !held.has(*capability));
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
            assert_eq!(check_grants(narrow, wanted).is_ok(), allowed, "{wanted:?}");
            let taken = check_takes_over(&caller(1, narrow), id(2), wanted);
            assert_eq!(taken.is_ok(), allowed, "{wanted:?} by rotation");
        }
        assert!(check_takes_over(&caller(2, narrow), id(2), Capabilities::all()).is_ok(), "itself");
        let admin = CapabilitySet::HumanAdmin.capabilities();
        let refusal = check_grants(admin, Capabilities::all()).unwrap_err();
        assert_eq!(refusal.code(), Code::Forbidden);
        assert!(refusal.detail().contains("operator:global, audit:read-global"), "{}", refusal.detail());
    }

    #[test]
    fn a_derived_token_is_narrower() {
        let all = Capabilities::all();
        assert!(check_derives(all, all.without(TokenAdmin)).is_ok());
        assert!(check_derives(all, set(&[TokenAdmin])).is_err());
        assert!(check_derives(set(&[TokenAdmin]), CapabilitySet::AgentWorker.capabilities()).is_err());
    }

    #[test]
    fn a_grant_lends_seven_capabilities_that_its_administrator_holds() {
        let lendable: Capabilities = LENDABLE.into_iter().collect();
        for capability in Capability::ALL {
            let wanted = set(&[*capability]);
            let can_lend = lendable.has(*capability);
            let by_all = check_lends(Capabilities::all(), wanted).map_err(|error| error.code());
            assert_eq!(by_all, if can_lend { Ok(()) } else { Err(Code::Malformed) }, "{capability:?}");
            let by_others = check_lends(Capabilities::all().without(*capability), wanted);
            let refusal = if can_lend { Code::Forbidden } else { Code::Malformed };
            assert_eq!(by_others.unwrap_err().code(), refusal, "{capability:?}");
        }
        let narrow = set(&[TokenAdmin]);
        assert!(check_lends(narrow, set(&[Capability::WorkspaceRead])).is_err(), "though it can mint it");
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
        assert!(check_revokes(&caller(1, set(&[TokenAdmin])), id(2), admin).is_ok(), "a wider one");
        for beyond in [OperatorGlobal, AuditReadGlobal] {
            let wide = set(&[beyond]);
            assert!(check_revokes(&caller(1, admin), id(2), wide).is_err(), "{beyond:?}");
            assert!(check_revokes(&caller(2, admin), id(2), wide).is_ok(), "itself");
            assert!(check_revokes(&caller(1, admin.union(wide)), id(2), wide).is_ok(), "the same");
            assert!(check_revokes(&caller(1, admin.union(wide)), id(2), Capabilities::all()).is_err());
        }
        let instance = Caller::instance(WorkspaceId::INSTANCE);
        assert!(check_revokes(&instance, id(2), Capabilities::all()).is_ok());
    }
}
