//! Enrolling members: creating a member in a workspace, with or without a first token.
//!
//! The caller of [`create_member`] must have checked that the request is allowed and that the handle is free.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::capability::Capability::TokenAdmin;
use crate::capability::CapabilitySet;
use crate::error::{Code, Error, Result};
use crate::id::{MemberId, WorkspaceId};
use crate::identity::members::{Member, MemberKind, member_with_handle};
use crate::identity::tokens::{self, MintedToken, NewToken, with_surface};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{HANDLE_MAX, NAME_MAX};
use crate::log::event::{Event, EventKind, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Feature, Read, Surface, Write, secret_shown_once_error, write};
use crate::request::request;
use crate::text::{Handle, Text};

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "members",
            vec![
                write("create_agent", create_agent)
                    .title("Add an agent")
                    .post("/workspaces/{workspace_id}/agents")
                    .needs(&[TokenAdmin])
                    .rest_only()
                    .created()
                    .refuses(&[Code::HandleTaken])
                    .example(|w| {
                        json!({
                            "workspace_id": w.id("workspace"), "handle": "builder", "display_name": "Builder",
                        })
                    }),
            ],
        )
        .events(vec![EventKind::of::<MemberCreated>()])
}

/// A member joined the workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemberCreated {
    /// Id of the new member.
    member_id: MemberId,
    /// Unique name of the member in the workspace, such as `builder`.
    handle: String,
    /// Whether the member is a person or an agent.
    kind: MemberKind,
    /// Name of the member to show to people; null if the member has none.
    display_name: Option<String>,
}

impl Event for MemberCreated {
    const KIND: &'static str = "MemberCreated";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let member = event.row_of("members", "member_id")?.made().copy("handle kind display_name");
        let member = member.set("created_at", event.at()).set("lsn", event.lsn());
        let member = member.clear("frozen_at").clear("frozen_by").clear("frozen_reason");
        member.clear("deactivated_at").clear("changed_at").clear("removed_at").keep()
    }
}

request! {
    /// Creates an agent in a workspace, and returns the agent with its first token.
    ///
    /// The token has the capabilities of the named set `svc.agent.worker`, and your quotas. The `secret` of
    /// the token is shown only once.
    ///
    /// Fails with 409 `handle-taken` if another member of the workspace has the handle, or if the handle is
    /// `all`, `channel`, `everyone` or `here`. In this case the server creates nothing.
    #[derive(Serialize)]
    struct CreateAgent {
        /// The workspace that the agent joins. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// Unique name of the agent in the workspace, such as `builder`. Upper-case letters are converted to
        /// lower case.
        handle: Handle<HANDLE_MAX>,
        /// Name of the agent to show to people.
        display_name: Option<Text<1, NAME_MAX>>,
    }

    create_agent(handle: Handle<HANDLE_MAX>) -> MemberWithToken
}

/// A new member with its first token.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct MemberWithToken {
    /// The new member.
    pub member: Member,
    /// First token of the member, with its secret.
    pub token: MintedToken,
}

fn create_agent(cx: &mut Write<'_>, input: &CreateAgent) -> Result<MemberWithToken> {
    let workspace_id = input.workspace_id.of(cx)?;
    let new = NewMember {
        workspace_id,
        handle: &input.handle,
        kind: MemberKind::Agent,
        display_name: input.display_name.as_deref(),
        surface: None,
    };
    check_handle_free(cx, &new)?;
    create_member_with_token(cx, &new, CapabilitySet::AgentWorker)
}

impl Answer<CreateAgent> for MemberWithToken {
    type Kept = MemberId;
    const REFUSES: &'static [Code] = &[Code::IdempotencyReplayed];

    fn kept(&self) -> Option<MemberId> {
        Some(self.member.id)
    }

    fn answer_repeat(_: &Read<'_>, _: &CreateAgent, id: MemberId) -> Result<Self> {
        Err(secret_shown_once_error(id).with_next("Mint another token for the member `id`."))
    }
}

/// Values of a member to create.
pub(crate) struct NewMember<'a> {
    pub workspace_id: WorkspaceId,
    pub handle: &'a str,
    pub kind: MemberKind,
    pub display_name: Option<&'a str>,
    /// Surface of the request, which the audit row records if no member made the request.
    pub surface: Option<Surface>,
}

/// Handles that no new member can have, because in messages they address, or seem to address, several
/// members.
const GROUP_HANDLES: [&str; 4] = ["all", "channel", "everyone", "here"];

/// Fails if the handle would address, or seem to address, several members in messages.
pub(crate) fn check_not_group_handle(handle: &str) -> Result<()> {
    if !GROUP_HANDLES.contains(&handle) {
        return Ok(());
    }
    let detail = format!("the handle {handle} means several members in messages; choose another");
    Err(Error::new(Code::HandleTaken, detail))
}

/// Fails if another member of the workspace has the handle, or if the handle is reserved for groups of
/// members.
pub(crate) fn check_handle_free(cx: &Read<'_>, new: &NewMember<'_>) -> Result<()> {
    check_not_group_handle(new.handle)?;
    match member_with_handle(cx, new.workspace_id, new.handle)? {
        None => Ok(()),
        Some(_) => {
            let detail = format!("the handle {} is in use in this workspace; choose another", new.handle);
            Err(Error::new(Code::HandleTaken, detail))
        }
    }
}

/// Creates a member. The caller must have checked that the request is allowed and that the handle is free.
pub(crate) fn create_member(cx: &mut Write<'_>, new: &NewMember<'_>) -> Result<Member> {
    let id: MemberId = cx.new_id()?;
    let display_name = new.display_name.map(str::to_owned);
    let event = MemberCreated {
        member_id: id,
        handle: new.handle.to_owned(),
        kind: new.kind,
        display_name: display_name.clone(),
    };
    let lsn = cx.emit_in(new.workspace_id, Subject::WORKSPACE.about(id), &event)?.lsn;
    let member = Member {
        id,
        workspace_id: new.workspace_id,
        handle: new.handle.to_owned(),
        kind: new.kind,
        display_name,
        skills: Vec::new(),
        created_at: cx.now(),
        changed_at: None,
        frozen: false,
        active: true,
        lsn,
    };
    member.insert(cx)?;
    let metadata = json!({"member_id": id, "handle": new.handle, "kind": new.kind});
    cx.audit_in(new.workspace_id, "member.create", with_surface(metadata, new.surface))?;
    Ok(member)
}

/// Creates a member and mints the member's first token. [`create_member`] lists the checks that the caller
/// must have made.
pub(crate) fn create_member_with_token(
    cx: &mut Write<'_>,
    new: &NewMember<'_>,
    set: CapabilitySet,
) -> Result<MemberWithToken> {
    let member = create_member(cx, new)?;
    let mint = NewToken { surface: new.surface, ..NewToken::new(&member, set.capabilities()) };
    let token = tokens::issue(cx, &mint)?;
    Ok(MemberWithToken { member, token })
}
