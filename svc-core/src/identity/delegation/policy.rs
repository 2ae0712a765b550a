//! Delegation policy of a workspace: the maximum life of the workspace's delegation grants.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::id::WorkspaceId;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{GRANT_CEILING_DEFAULT_DAYS, GRANT_CEILING_MAX_DAYS};
use crate::log::event::{Event, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Read, Write};
use crate::request::request;
use crate::store::columns;
use crate::text::Count;

/// The delegation policy of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct DelegationPolicy {
    /// Maximum life of a delegation grant, in days.
    pub ceiling_days: i64,
}

columns! { policy_columns: DelegationPolicy as p { ceiling_days } }

impl DelegationPolicy {
    /// Returns the maximum life of a delegation grant.
    pub fn max_life(self) -> Duration {
        Duration::from_secs(self.ceiling_days.unsigned_abs().saturating_mul(SECS_PER_DAY))
    }
}

const SECS_PER_DAY: u64 = 86_400;

/// An administrator set the maximum life of a workspace's delegation grants.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DelegationPolicySet {
    #[serde(flatten)]
    policy: DelegationPolicy,
}

impl Event for DelegationPolicySet {
    const KIND: &'static str = "DelegationPolicySet";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("delegation_policies", "$workspace")?.made().copy("ceiling_days").keep()
    }
}

request! {
    /// Sets for how many days a new delegation grant may be valid, and returns the policy.
    ///
    /// Existing grants keep their end time, and can be revoked.
    #[derive(Serialize)]
    pub(super) struct SetDelegationPolicy {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// Maximum life of a delegation grant, in days.
        ceiling_days: Count<1, GRANT_CEILING_MAX_DAYS>,
    }

    set_delegation_policy(ceiling_days: Count<1, GRANT_CEILING_MAX_DAYS>) -> DelegationPolicy
}

pub(super) fn set_delegation_policy(
    cx: &mut Write<'_>,
    input: &SetDelegationPolicy,
) -> Result<DelegationPolicy> {
    let workspace_id = input.workspace_id.of(cx)?;
    let policy = DelegationPolicy { ceiling_days: input.ceiling_days.get() };
    if policy != load_policy(cx, workspace_id)? {
        cx.emit(Subject::WORKSPACE, &DelegationPolicySet { policy })?;
        cx.execute(1, SET_POLICY, &[&workspace_id, &policy.ceiling_days])?;
    }
    Ok(policy)
}

const SET_POLICY: &str = "
    insert into delegation_policies (workspace_id, ceiling_days) values ($1, $2)
    on conflict (workspace_id) do update set ceiling_days = excluded.ceiling_days";

impl Answer<SetDelegationPolicy> for DelegationPolicy {
    type Kept = ();

    fn kept(&self) -> Option<()> {
        Some(())
    }

    fn answer_repeat(cx: &Read<'_>, input: &SetDelegationPolicy, (): ()) -> Result<Self> {
        let workspace_id = input.workspace_id.of(cx)?;
        load_policy(cx, workspace_id)
    }
}

request! {
    /// Returns the maximum number of days for which a delegation grant is valid. The default is 90.
    pub(super) struct GetDelegationPolicy {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
    }

    get_delegation_policy() -> DelegationPolicy
}

pub(super) fn get_delegation_policy(cx: &Read<'_>, input: &GetDelegationPolicy) -> Result<DelegationPolicy> {
    let workspace_id = input.workspace_id.of(cx)?;
    load_policy(cx, workspace_id)
}

/// Returns the delegation policy of a workspace, or the default policy if the workspace has none.
pub(super) fn load_policy(cx: &Read<'_>, workspace_id: WorkspaceId) -> Result<DelegationPolicy> {
    let set = cx.one(POLICY_OF_WORKSPACE, &[&workspace_id])?;
    Ok(set.unwrap_or(DelegationPolicy { ceiling_days: GRANT_CEILING_DEFAULT_DAYS }))
}

const POLICY_OF_WORKSPACE: &str =
    concat!("select ", policy_columns!(), " from delegation_policies p where p.workspace_id = $1");
