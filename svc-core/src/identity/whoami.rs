//! Reading the caller's own identity and capabilities, and the named sets of capabilities.
//!
//! The operations in this file only read.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::members::{MemberKind, load_member};
use crate::capability::{Capabilities, CapabilitySet};
use crate::error::Result;
use crate::id::{GrantId, MemberId, TokenId, WorkspaceId};
use crate::op::{Feature, Read, read};
use crate::page::Page;
use crate::request::request;
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "identity",
        vec![
            read("whoami", whoami)
                .title("Read your own identity")
                .when("Get your member, workspace and capabilities. Use first, to learn your identity.")
                .quick()
                .get("/me")
                .example(|_| json!({})),
            read("list_capability_sets", list_capability_sets)
                .short()
                .title("List the named sets of capabilities")
                .when(
                    "List the named capability sets that a new token can be given. Call it before \
                     `mint_token`.",
                )
                .get("/capability-sets")
                .example(|_| json!({})),
        ],
    )
}

request! {
    /// Returns your identity: the member that your token acts as, the member's workspace, and the token's
    /// capabilities.
    #[derive(Debug, Serialize)]
    pub struct Whoami {
    }

    whoami() -> Me
}

/// Identity of the caller: member, workspace and capabilities.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Me {
    /// Id of the member whose credential you use; differs from `member_id` only under delegation.
    pub actor_id: MemberId,
    /// Id of the member that you act as.
    pub member_id: MemberId,
    /// Handle of the member that you act as.
    pub handle: String,
    /// Whether the member that you act as is a person or an agent.
    pub kind: MemberKind,
    /// Id of the workspace that you are a member of.
    pub workspace_id: WorkspaceId,
    /// Id of the delegation grant that you act under; null if you act without delegation.
    pub delegation_grant_id: Option<GrantId>,
    /// Id of the token that authenticated the request; null if no token did.
    pub token_id: Option<TokenId>,
    /// Capabilities of your credential.
    pub capabilities: Capabilities,
    /// Names of the capability sets that your credential's capabilities cover completely.
    pub capability_sets: Vec<CapabilitySet>,
    /// Time at which your credential expires; null if it does not expire.
    pub expires_at: Option<Time>,
    /// Whether you are frozen. A frozen member may only read.
    pub frozen: bool,
}

/// Identity of a caller, as the caller's credential describes it.
#[derive(Debug, Serialize)]
pub struct Bearer {
    /// Id of the member that the credential acts as.
    pub member_id: MemberId,
    /// Id of the member's workspace.
    pub workspace_id: WorkspaceId,
    /// Capabilities of the credential.
    pub capabilities: Capabilities,
}

/// Returns the identity of the caller from the credential alone, without reading the member's row.
pub(crate) fn bearer(cx: &Read<'_>) -> Result<Bearer> {
    let caller = cx.caller();
    let workspace_id = caller.workspace_id;
    let capabilities = caller.capabilities;
    Ok(Bearer { member_id: caller.member_id()?, workspace_id, capabilities })
}

pub(crate) fn whoami(cx: &Read<'_>, _: &Whoami) -> Result<Me> {
    let caller = cx.caller();
    let member = load_member(cx, caller.member_id()?)?;
    Ok(Me {
        actor_id: caller.actor.unwrap_or(member.id),
        member_id: member.id,
        handle: member.handle,
        kind: member.kind,
        workspace_id: caller.workspace_id,
        delegation_grant_id: caller.grant,
        token_id: caller.token_id,
        capabilities: caller.capabilities,
        capability_sets: covered_sets(caller.capabilities),
        expires_at: caller.expires_at,
        frozen: caller.frozen,
    })
}

/// Returns the named sets that `capabilities` cover completely.
pub(super) fn covered_sets(capabilities: Capabilities) -> Vec<CapabilitySet> {
    CapabilitySet::ALL.iter().copied().filter(|set| capabilities.covers(set.capabilities())).collect()
}

request! {
    /// Returns the named capability sets that a new token can be given.
    ///
    /// A named set is a template: a token keeps the capabilities that the set had when the token was minted.
    struct ListCapabilitySets {
    }

    list_capability_sets() -> Page<NamedCapabilitySet>
}

/// A named set of capabilities.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "NamedSet")]
#[non_exhaustive]
pub struct NamedCapabilitySet {
    /// Name to pass as `capability_set`.
    pub name: CapabilitySet,
    /// Kind of member that the set is intended for.
    pub description: &'static str,
    /// Capabilities of a token that is minted from the set.
    pub capabilities: Capabilities,
}

fn list_capability_sets(_: &Read<'_>, _: &ListCapabilitySets) -> Result<Page<NamedCapabilitySet>> {
    let named = |set: &CapabilitySet| NamedCapabilitySet {
        name: *set,
        description: set.description(),
        capabilities: set.capabilities(),
    };
    Ok(Page::whole(CapabilitySet::ALL.iter().map(named).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Capability;

    #[test]
    fn named_sets_are_held_in_full_or_not_at_all() {
        assert_eq!(covered_sets(Capabilities::all()), CapabilitySet::ALL);
        assert_eq!(covered_sets(CapabilitySet::AgentWorker.capabilities()), [CapabilitySet::AgentWorker]);
        assert!(covered_sets([Capability::WorkspaceRead].into_iter().collect()).is_empty());
    }
}
