//! Creating a workspace together with a member who can administer it.
//!
//! A workspace is created when a new instance is set up, on request of the instance's operator, or, in builds
//! for evaluation, by a request without a credential. If no usable token remains, the administrator of the
//! machine can mint a token with the functions in this file.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::authority;
use super::enrol::{
    MemberWithToken, NewMember, check_not_group_handle, create_member, create_member_with_token,
};
use super::members::{AnyHandle, Member, MemberKind, member_with_handle};
use super::tokens::{self, MintedToken, NewToken, Quotas, check_can_have_tokens, issue};
use super::workspaces::{Workspace, create_empty_workspace, has_any_workspace};
use crate::capability::Capability::OperatorGlobal;
use crate::capability::{Capabilities, CapabilitySet};
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::limits::{HANDLE_MAX, NAME_MAX};
use crate::op::{
    Answer, Effect, Feature, Read, Surface, Write, WriteNeeds, changing, secret_shown_once_error,
};
use crate::request::request;
use crate::text::{Handle, Text};
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    let feature = Feature::new().operations(
        "operator",
        vec![
            changing("create_workspace", Effect::Write)
                .wants(|_| WriteNeeds::workspace(WorkspaceId::INSTANCE))
                .run(create_workspace)
                .title("Create a workspace")
                .post("/operator/workspaces")
                .needs(&[OperatorGlobal])
                .rest_only()
                .created()
                .refuses(&[Code::HandleTaken])
                .example(|_| json!({"name": "Second team", "admin_handle": "ada"})),
        ],
    );
    #[cfg(feature = "bootstrap")]
    let feature = feature.operations("bootstrap", bootstrap::operations());
    feature
}

request! {
    /// Creates a workspace and an administrator, who is a person, and returns both with the administrator's
    /// token.
    ///
    /// The token has all capabilities except those to operate the instance, and has your quotas. The token's
    /// `secret` is shown only once. You do not become a member of the new workspace.
    ///
    /// Fails with 409 `handle-taken` if `admin_handle` is `all`, `channel`, `everyone` or `here`. In this
    /// case the server creates nothing.
    #[derive(Serialize)]
    struct CreateWorkspace {
        /// Name of the workspace, to show to people.
        name: Text<1, NAME_MAX>,
        /// Unique name of the administrator in the workspace, such as `ada`.
        ///
        /// Upper-case letters are converted to lower case.
        admin_handle: Handle<HANDLE_MAX>,
    }

    create_workspace(name: Text<1, NAME_MAX>, admin_handle: Handle<HANDLE_MAX>) -> NewWorkspace
}

/// A new workspace with its administrator.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct NewWorkspace {
    /// The new workspace.
    pub workspace: Workspace,
    /// The administrator of the workspace, who is a person.
    pub member: Member,
    /// Token of the administrator, with its secret.
    pub token: MintedToken,
}

fn create_workspace(cx: &mut Write<'_>, input: &CreateWorkspace) -> Result<NewWorkspace> {
    check_not_group_handle(&input.admin_handle)?;
    let workspace = create_empty_workspace(cx, &input.name)?;
    let admin = NewMember {
        workspace_id: workspace.id,
        handle: &input.admin_handle,
        kind: MemberKind::Human,
        display_name: None,
        surface: None,
    };
    let MemberWithToken { member, token } = create_member_with_token(cx, &admin, CapabilitySet::HumanAdmin)?;
    Ok(NewWorkspace { workspace, member, token })
}

impl Answer<CreateWorkspace> for NewWorkspace {
    type Kept = WorkspaceId;
    const REFUSES: &'static [Code] = &[Code::IdempotencyReplayed];

    fn kept(&self) -> Option<WorkspaceId> {
        Some(self.workspace.id)
    }

    fn answer_repeat(_: &Read<'_>, _: &CreateWorkspace, id: WorkspaceId) -> Result<Self> {
        let next = "Have the operator mint a token there: `svc token mint --as-instance --workspace`.";
        Err(secret_shown_once_error(id).with_next(next))
    }
}

/// Names of the first workspace and of its first members.
pub(crate) struct SetupNames {
    pub workspace: Text<1, NAME_MAX>,
    pub admin: Handle<HANDLE_MAX>,
    pub agent: Handle<HANDLE_MAX>,
}

impl SetupNames {
    /// Creates the names. Fails if one of the names is invalid. The agent's name is `worker`.
    pub fn new(workspace: &str, admin: &str) -> Result<Self> {
        let invalid = |field: &'static str| move |error: String| Error::in_field(field, error);
        Ok(Self {
            workspace: Text::new(workspace.to_owned()).map_err(invalid("name"))?,
            admin: Handle::new(admin).map_err(invalid("admin"))?,
            agent: Handle::new("worker").map_err(invalid("agent"))?,
        })
    }
}

/// The first workspace, with its first members and their tokens.
#[derive(Serialize)]
pub(crate) struct FirstWorkspace {
    pub workspace: Workspace,
    /// The administrator, who is a person.
    pub admin: Member,
    /// Token of the administrator, with all capabilities, including those to operate the instance.
    pub admin_token: MintedToken,
    pub agent: Member,
    /// Token of the agent, with the named set of capabilities for workers.
    pub agent_token: MintedToken,
}

/// Creates the first workspace with an administrator and an agent. Fails if a workspace already exists.
///
/// The audit rows record `surface` as the surface of the request.
pub(crate) fn establish(cx: &mut Write<'_>, names: &SetupNames, surface: Surface) -> Result<FirstWorkspace> {
    if has_any_workspace(cx)? {
        return Err(Error::new(Code::AlreadyInitialised, "a workspace exists already; nothing was changed"));
    }
    if *names.admin == *names.agent {
        return Err(Error::new(Code::HandleTaken, "the administrator cannot have the first agent's handle"));
    }
    check_not_group_handle(&names.admin)?;
    check_not_group_handle(&names.agent)?;
    let workspace = create_empty_workspace(cx, &names.workspace)?;
    let new = |handle, kind| NewMember {
        workspace_id: workspace.id,
        handle,
        kind,
        display_name: None,
        surface: Some(surface),
    };
    let admin = create_member(cx, &new(&names.admin, MemberKind::Human))?;
    let all = NewToken {
        surface: Some(surface),
        label: Some("setup"),
        ..NewToken::new(&admin, Capabilities::all())
    };
    let admin_token = issue(cx, &all)?;
    let agent = new(&names.agent, MemberKind::Agent);
    let MemberWithToken { member: agent, token } =
        create_member_with_token(cx, &agent, CapabilitySet::AgentWorker)?;
    Ok(FirstWorkspace { workspace, admin, admin_token, agent, agent_token: token })
}

/// A request to mint a token with the authority of the instance.
pub(crate) struct InstanceTokenRequest {
    pub workspace_id: WorkspaceId,
    /// Handle of the member that the token acts as.
    pub handle: AnyHandle,
    pub label: Option<Text<1, NAME_MAX>>,
    /// Capabilities of the token; `None` for the default set of the member's kind.
    pub capabilities: Option<Capabilities>,
    /// Time at which the token expires; `None` if the token does not expire.
    pub expires_at: Option<Time>,
    /// Usage quotas of the token.
    pub quotas: Option<Quotas>,
}

/// Mints a token with the authority of the machine's administrator. The token can have any capability.
pub(crate) fn mint_as_instance(
    cx: &mut Write<'_>,
    request: &InstanceTokenRequest,
    surface: Surface,
) -> Result<MintedToken> {
    let member = member_with_handle(cx, request.workspace_id, &request.handle)?
        .ok_or_else(|| Error::not_found("member"))?;
    let capabilities = tokens::requested_capabilities(request.capabilities, None, member.kind)?;
    authority::check_has_capabilities(cx.caller().capabilities, capabilities)?;
    check_can_have_tokens(&member)?;
    if request.expires_at.is_some_and(|end| end <= cx.now()) {
        return Err(Error::in_field("expires_at", "expected a time in the future"));
    }
    let mint = NewToken {
        label: request.label.as_deref(),
        expires_at: request.expires_at,
        quotas: request.quotas,
        surface: Some(surface),
        ..NewToken::new(&member, capabilities)
    };
    issue(cx, &mint)
}

/// Query that shows whether the instance has no live workspace, one or several.
const FIRST_TWO_LIVE_WORKSPACES: &str = "select id from workspaces where state = 'live' order by lsn limit 2";

const LIVE_WORKSPACE: &str = "select id from workspaces where id = $1 and state = 'live'";

/// Returns the workspace `workspace_id`, or the only workspace if `workspace_id` is `None`.
///
/// Fails if the workspace does not exist, or if `workspace_id` is `None` and the instance has several
/// workspaces.
pub(crate) fn find_workspace(cx: &Read<'_>, workspace_id: Option<WorkspaceId>) -> Result<WorkspaceId> {
    let found: Vec<(WorkspaceId,)> = match workspace_id {
        Some(id) => cx.query(LIVE_WORKSPACE, &[&id])?,
        None => cx.query(FIRST_TWO_LIVE_WORKSPACES, &[])?,
    };
    match found.as_slice() {
        [(id,)] => Ok(*id),
        [] => Err(Error::not_found("workspace")),
        _ => Err(Error::malformed("there are several workspaces; name one")),
    }
}

/// Bootstrap mode: creating the first workspace and its first members without a credential.
///
/// This module is compiled only with the feature `bootstrap`. Bootstrap mode ends for a workspace when the
/// first token with `token:admin` is minted.
#[cfg(feature = "bootstrap")]
mod bootstrap {
    use serde::Deserialize;

    use super::*;
    use crate::capability::Capability::TokenAdmin;
    use crate::id::{MemberId, TokenId};
    use crate::identity::enrol::check_handle_free;
    use crate::op::{Operation, without_requests, write};

    without_requests! { BootstrapWorkspace, BootstrapMember }

    pub(super) fn operations() -> Vec<Operation> {
        vec![
            write("bootstrap_workspace", bootstrap_workspace)
                .title("Create the first workspace")
                .post("/workspaces")
                .open_to_all()
                .rest_only()
                .created()
                .refuses(&[Code::Forbidden]),
            changing("bootstrap_member", Effect::Write)
                .wants(|input: &BootstrapMember| WriteNeeds::workspace(input.workspace_id))
                .run(bootstrap_member)
                .title("Add a member to a workspace without an administrator")
                .post("/workspaces/{workspace_id}/members")
                .open_to_all()
                .rest_only()
                .created()
                .refuses(&[Code::Forbidden, Code::HandleTaken]),
        ]
    }

    /// Creates the first workspace without a credential, and returns the workspace.
    ///
    /// Fails with 403 `forbidden` if a workspace already exists.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct BootstrapWorkspace {
        /// Name of the workspace, to show to people.
        name: Text<1, NAME_MAX>,
    }

    fn bootstrap_workspace(cx: &mut Write<'_>, input: &BootstrapWorkspace) -> Result<Workspace> {
        if has_any_workspace(cx)? {
            return Err(Error::forbidden("only the first workspace can be created without a credential"));
        }
        create_empty_workspace(cx, &input.name)
    }

    /// Creates a member in a workspace without an administrator, and returns the member with a first token.
    ///
    /// The request needs no credential. A person's token has all capabilities except those to operate the
    /// instance. An agent's token has the named set `svc.agent.worker`. The token's `secret` is shown only
    /// once.
    ///
    /// Fails with 403 `forbidden` if a token with `token:admin` was ever minted in the workspace; 409
    /// `handle-taken` if another member of the workspace has the handle.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct BootstrapMember {
        /// The workspace for the new member.
        workspace_id: WorkspaceId,
        /// Unique name of the member in the workspace. Upper-case letters are converted to lower case.
        handle: Handle<HANDLE_MAX>,
        /// Whether the member is a person or an agent.
        kind: MemberKind,
    }

    /// A new member with its first token.
    #[derive(Serialize, JsonSchema)]
    struct BootstrappedMember {
        #[serde(flatten)]
        member: Member,
        /// First token of the member, with its secret.
        token: MintedToken,
    }

    fn bootstrap_member(cx: &mut Write<'_>, input: &BootstrapMember) -> Result<BootstrappedMember> {
        let workspace_id = find_workspace(cx, Some(input.workspace_id))?;
        if is_administered(cx, workspace_id)? {
            return Err(Error::forbidden("the workspace has an administrator, who adds its members"));
        }
        let new = NewMember {
            workspace_id,
            handle: &input.handle,
            kind: input.kind,
            display_name: None,
            surface: None,
        };
        check_handle_free(cx, &new)?;
        let MemberWithToken { member, token } =
            create_member_with_token(cx, &new, input.kind.default_capability_set())?;
        Ok(BootstrappedMember { member, token })
    }

    impl Answer<BootstrapMember> for BootstrappedMember {
        type Kept = MemberId;
        const REFUSES: &'static [Code] = &[Code::IdempotencyReplayed];

        fn kept(&self) -> Option<MemberId> {
            Some(self.member.id)
        }

        fn answer_repeat(_: &Read<'_>, _: &BootstrapMember, id: MemberId) -> Result<Self> {
            Err(secret_shown_once_error(id))
        }
    }

    const ADMIN_TOKEN: &str = "
        select id from tokens where workspace_id = $1 and (capabilities & cast($2 as bigint)) <> 0 limit 1";

    /// Returns whether a token with `token:admin` was ever minted in the workspace.
    ///
    /// Expired and revoked tokens count too, so the loss of all tokens does not reopen bootstrap mode.
    fn is_administered(cx: &Read<'_>, workspace_id: WorkspaceId) -> Result<bool> {
        let admin: Capabilities = [TokenAdmin].into_iter().collect();
        Ok(cx.one::<(TokenId,)>(ADMIN_TOKEN, &[&workspace_id, &admin])?.is_some())
    }
}
