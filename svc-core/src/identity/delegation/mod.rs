//! Delegation: letting one member act for another member.
//!
//! An administrator creates a grant for a limited time and a stated purpose. The workspace's policy limits
//! the time. The delegate exchanges the grant for short-lived tokens that act as the subject; actions with
//! these tokens are attributed to both members. Delegation is limited to one step: a delegated token cannot
//! be used for another exchange. Revoking a grant ends all of its tokens, and the tokens derived from them,
//! in the same transaction. This file defines and reads grants and their events. Each change of a grant is in
//! a separate file.

pub(crate) mod policy;
pub(crate) mod create;
pub(crate) mod exchange;
pub(crate) mod revoke;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::capability::Capabilities;
use crate::capability::Capability::{MessagePost, TokenAdmin, WorkspaceRead};
use crate::error::{Code, Error, Result};
use crate::id::{GrantId, MemberId, TokenId, WorkspaceId};
use crate::identity::tokens::{capability_bits, mark_listed_revoked};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::event::{CachedEntryKind, Event, EventKind};
use crate::log::replay::ReplayedEvent;
use crate::op::{Feature, Fixture, Read, Records, Sample, destructive, idempotent, read, write};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::store::columns;
use crate::time::Time;
use create::create_delegation_grant;
use exchange::delegate_token;
use policy::{DelegationPolicySet, get_delegation_policy, set_delegation_policy};
pub(crate) use revoke::end_grants_of_delegate;
use revoke::revoke_delegation_grant;

/// A delegation grant, which allows one member to act for another.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct DelegationGrant {
    /// Id of the grant.
    pub grant_id: GrantId,
    /// Id of the workspace that both members are in.
    pub workspace_id: WorkspaceId,
    /// Id of the member that the delegate acts for.
    pub subject: MemberId,
    /// Id of the member that acts for the subject.
    pub delegate: MemberId,
    /// Maximum capabilities of the delegate's tokens.
    pub capabilities: Capabilities,
    /// The purpose of the grant.
    pub purpose: String,
    /// The member who created the grant; null for the service itself.
    pub created_by: Option<MemberId>,
    /// Time at which the grant was created.
    pub created_at: Time,
    /// Time at which the grant ends unless it is revoked earlier.
    pub expires_at: Time,
    /// Time at which the grant was revoked; null if it was not revoked.
    pub revoked_at: Option<Time>,
    #[serde(skip)]
    lsn: i64,
}

columns! {
    grant_columns: DelegationGrant as g {
        grant_id = id,
        workspace_id,
        subject = subject_id,
        delegate = delegate_id,
        capabilities,
        purpose,
        created_by,
        created_at,
        expires_at,
        revoked_at,
        lsn,
    }
    insert "insert into delegation_grants" {}
}

/// A delegation grant was created, which allows one member to act for another.
#[derive(Debug, Serialize, JsonSchema)]
struct DelegationGranted {
    /// Id of the new grant.
    grant_id: GrantId,
    /// Id of the member that the delegate acts for.
    subject: MemberId,
    /// Id of the member that acts for the subject.
    delegate: MemberId,
    /// Maximum capabilities of the delegate's tokens.
    capabilities: Capabilities,
    /// Time at which the grant ends unless it is revoked earlier.
    expires_at: Time,
    /// The purpose of the grant.
    purpose: String,
}

impl Event for DelegationGranted {
    const KIND: &'static str = "DelegationGranted";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let grant = event.row_of("delegation_grants", "grant_id")?.made().copy("purpose expires_at");
        let grant = grant.set_to("subject_id", "subject").set_to("delegate_id", "delegate");
        let grant = grant.set_known("capabilities", capability_bits(event, "capabilities"));
        let grant = grant.set("created_by", event.subject()).set("created_at", event.at());
        grant.clear("revoked_at").set("lsn", event.lsn()).keep()
    }
}

/// A delegation grant was revoked, together with its tokens.
#[derive(Debug, Serialize, JsonSchema)]
struct DelegationRevoked {
    /// Id of the revoked grant.
    grant_id: GrantId,
    /// Ids of the tokens that ended with the grant, including derived tokens.
    token_ids: Vec<TokenId>,
}

impl Event for DelegationRevoked {
    const KIND: &'static str = "DelegationRevoked";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("delegation_grants", "grant_id")?.set("revoked_at", event.at()).keep()?;
        mark_listed_revoked(event)
    }
}

pub(crate) fn feature() -> Feature {
    let grant = |w: &Fixture| {
        json!({
            "workspace_id": w.id("workspace"), "subject": w.id("agent"), "delegate": w.id("admin"),
            "capabilities": [WorkspaceRead, MessagePost], "expires_in_secs": 604_800,
            "purpose": "Answers for the agent while it is being repaired.",
        })
    };
    Feature::new()
        .operations(
            "delegation",
            vec![
                write("create_delegation_grant", create_delegation_grant)
                    .title("Grant delegation to a member")
                    .when(
                        "Grant a member the right to act for another member, for a limited time and a stated \
                         purpose.",
                    )
                    .post("/workspaces/{workspace_id}/delegation-grants")
                    .needs(&[TokenAdmin])
                    .created()
                    .refuses(&[Code::Forbidden, Code::WrongState])
                    .example(grant),
                read("list_delegation_grants", list_delegation_grants)
                    .title("List the delegation grants of a workspace")
                    .when("List delegation grants, to see which members may act for which others.")
                    .detailed()
                    .get("/workspaces/{workspace_id}/delegation-grants")
                    .needs(&[TokenAdmin])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
                destructive("revoke_delegation_grant", revoke_delegation_grant)
                    .title("Revoke a delegation grant")
                    .when(
                        "Revoke a delegation grant, so that its delegate can no longer act for the other \
                         member.",
                    )
                    .delete("/workspaces/{workspace_id}/delegation-grants/{grant_id}")
                    .needs(&[TokenAdmin])
                    .example(
                        |w| json!({"workspace_id": w.id("workspace"), "grant_id": w.id("revoked_grant")}),
                    ),
                idempotent("set_delegation_policy", set_delegation_policy)
                    .title("Set the delegation policy")
                    .when("Set the maximum number of days for which a new delegation grant may be valid.")
                    .put("/workspaces/{workspace_id}/delegation-policy")
                    .needs(&[TokenAdmin])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "ceiling_days": 30})),
                read("get_delegation_policy", get_delegation_policy)
                    .title("Read the delegation policy")
                    .when(
                        "Get the maximum number of days for which a delegation grant may be valid. Call it \
                         before `create_delegation_grant`.",
                    )
                    .get("/workspaces/{workspace_id}/delegation-policy")
                    .needs(&[TokenAdmin])
                    .example(|w| json!({"workspace_id": w.id("workspace")})),
            ],
        )
        .operations(
            "identity",
            vec![
                write("delegate_token", delegate_token)
                    .title("Exchange a delegation grant for a token")
                    .when(
                        "Exchange a delegation grant for a token that acts as the grant's subject. You must \
                         be the grant's delegate.",
                    )
                    .post("/tokens/delegate")
                    .created()
                    .refuses(&[Code::Forbidden, Code::NotFound, Code::WrongState])
                    .example(|w| {
                        json!({"grant_id": w.id("delegation_grant"), "capabilities": [WorkspaceRead],
                               "label": "morning report", "expires_in_secs": 600})
                    }),
            ],
        )
        .events(vec![
            EventKind::of::<DelegationGranted>(),
            EventKind::of::<DelegationRevoked>().invalidates(CachedEntryKind::Access),
            EventKind::of::<DelegationPolicySet>(),
        ])
        .sample(Sample::new("delegation_grant", "create_delegation_grant", grant).id_at("/grant_id"))
        .sample(Sample::new("revoked_grant", "create_delegation_grant", grant).id_at("/grant_id"))
        .records(vec![
            Records::table("delegation_grants", "lsn id")
                .after("members")
                .ids("id workspace_id subject_id delegate_id created_by")
                .ints("capabilities lsn")
                .texts("purpose")
                .times("created_at expires_at revoked_at")
                .proven(
                    "id",
                    "subject_id delegate_id capabilities purpose created_by created_at expires_at \
                     revoked_at lsn",
                ),
            Records::table("delegation_policies", "workspace_id")
                .after("workspaces")
                .ids("workspace_id")
                .ints("ceiling_days")
                .proven("workspace_id", "ceiling_days"),
        ])
}

request! {
    /// Returns the delegation grants of a workspace, in the order in which they were created.
    ///
    /// The result includes expired and revoked grants.
    struct ListDelegationGrants {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_delegation_grants() -> Page<DelegationGrant>
}

const GRANTS_OF_WORKSPACE: &str = concat!(
    "select ",
    grant_columns!(),
    " from delegation_grants g where g.workspace_id = $1 and g.lsn > $2 order by g.lsn limit $3"
);

fn list_delegation_grants(cx: &Read<'_>, input: &ListDelegationGrants) -> Result<Page<DelegationGrant>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let after = Cursor::after(input.cursor);
    let limit = rows_to_read(input.limit);
    let rows = cx.rows(GRANTS_OF_WORKSPACE, &[&workspace_id, &after, &limit])?;
    Ok(Page::of(rows, input.limit, |grant: &DelegationGrant| grant.lsn))
}

const GRANT_BY_ID: &str =
    concat!("select ", grant_columns!(), " from delegation_grants g where g.id = $1 and g.workspace_id = $2");

/// Loads a delegation grant by its id. Fails with *not found* unless the grant is in the caller's workspace.
fn load_grant(cx: &Read<'_>, grant_id: GrantId) -> Result<DelegationGrant> {
    cx.one(GRANT_BY_ID, &[&grant_id, &cx.caller().workspace_id])?.ok_or_else(grant_not_found_error)
}

fn grant_not_found_error() -> Error {
    Error::not_found("delegation grant")
}
