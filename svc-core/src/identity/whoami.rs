//! The caller and its capabilities, and the named sets of capabilities.
//!
//! The operations in this file only read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::members::{MemberKind, load_member};
use crate::capability::{Capabilities, CapabilitySet};
use crate::error::Result;
use crate::id::{GrantId, MemberId, TokenId, WorkspaceId};
use crate::op::{Feature, Read, TypedOperation, read};
use crate::page::Page;
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "identity",
        vec![
            read(WHOAMI, whoami)
                .title("Read your own identity")
                .when("Get your member, workspace and capabilities. Use first, to learn who you are.")
                .quick()
                .get("/me")
                .example(|_| json!({})),
            read("list_capability_sets", list_capability_sets)
                .short()
                .title("List the named sets of capabilities")
                .when("List the named sets of capabilities. Call it before `mint_token`, to choose a set.")
                .get("/capability-sets")
                .example(|_| json!({})),
        ],
    )
}

/// Returns your identity: the member that your token acts as, its workspace, and the token's capabilities.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Whoami {}

/// The operation `whoami`, for callers in the same process.
pub const WHOAMI: TypedOperation<Whoami, Me> = TypedOperation::new("whoami");

/// The caller's identity.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Me {
    /// The member whose credential you use; differs from `member_id` only under delegation.
    pub actor_id: MemberId,
    /// The member that you act as.
    pub member_id: MemberId,
    /// The handle of the member `member_id`.
    pub handle: String,
    /// Whether the member `member_id` is a person or an agent.
    pub kind: MemberKind,
    /// The workspace that you belong to.
    pub workspace_id: WorkspaceId,
    /// The delegation grant that you act under; null when you act for yourself.
    pub delegation_grant_id: Option<GrantId>,
    /// The token that authenticated the request.
    pub token_id: Option<TokenId>,
    /// The token's capabilities.
    pub capabilities: Capabilities,
    /// The named sets of capabilities that the token covers completely.
    pub capability_sets: Vec<CapabilitySet>,
    /// When the token expires; null if it does not expire.
    pub expires_at: Option<Time>,
    /// Whether you are frozen and may only read.
    pub frozen: bool,
}

/// The bearer of a credential, as the credential describes it.
#[derive(Debug, Serialize)]
pub struct Bearer {
    /// The member that the credential acts as.
    pub member_id: MemberId,
    /// The workspace that the member belongs to.
    pub workspace_id: WorkspaceId,
    /// The credential's capabilities.
    pub capabilities: Capabilities,
}

/// Returns the caller from its credential alone, without reading the member's row.
pub(crate) fn bearer(cx: &Read<'_>) -> Result<Bearer> {
    let caller = cx.caller();
    let workspace_id = caller.workspace_id;
    let capabilities = caller.capabilities;
    Ok(Bearer { member_id: caller.member_id()?, workspace_id, capabilities })
}

fn whoami(cx: &Read<'_>, _: &Whoami) -> Result<Me> {
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
        capability_sets: sets_held(caller.capabilities),
        expires_at: caller.expires_at,
        frozen: caller.frozen,
    })
}

/// Returns the named sets that the capabilities `held` cover completely.
pub(super) fn sets_held(held: Capabilities) -> Vec<CapabilitySet> {
    CapabilitySet::ALL.iter().copied().filter(|set| held.covers(set.capabilities())).collect()
}

/// Returns the named sets of capabilities that tokens can be minted from.
///
/// A named set is a template: a token keeps the capabilities that the set had when the token was minted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListCapabilitySets {}

/// A named set of capabilities.
#[derive(Serialize, JsonSchema)]
struct NamedSet {
    /// The name to pass as `capability_set`.
    name: CapabilitySet,
    /// The kind of member that the set is intended for.
    description: &'static str,
    /// The capabilities of a token minted from the set.
    capabilities: Capabilities,
}

fn list_capability_sets(_: &Read<'_>, _: &ListCapabilitySets) -> Result<Page<NamedSet>> {
    let named = |set: &CapabilitySet| NamedSet {
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
        assert_eq!(sets_held(Capabilities::all()), CapabilitySet::ALL);
        assert_eq!(sets_held(CapabilitySet::AgentWorker.capabilities()), [CapabilitySet::AgentWorker]);
        assert!(sets_held([Capability::WorkspaceRead].into_iter().collect()).is_empty());
    }
}
