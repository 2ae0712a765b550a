//! The page where a person decides: what is on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::link::Link;
use super::{ApprovalGate, GateState, visible_gate};
use crate::Result;
use crate::capability::Capability::{ApprovalGrant, WorkspaceRead};
use crate::capability::Right;
use crate::coordination::thread::visible_thread;
use crate::error::{Code, Error};
use crate::id::MemberId;
use crate::identity::members::load_member;
use crate::op::{Frame, Operation, Read, read};
use crate::time::Time;

pub(super) fn row() -> Operation {
    read("open_approval_link", open_approval_link)
        .title("Show an approval gate to a person")
        .get("/ui/approvals/{link}")
        .framed(Frame::Approval)
        .as_page()
        .needs(&[Right::Session])
        .example(|_| json!({"link": "sealed"}))
}

/// Shows the approval gate that a link is about to whom a browser is signed in as.
///
/// The link gives no right: its reader sees the gate if it sees the thread, and decides if it may. A link
/// ends after an hour, and once its gate is decided.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OpenApprovalLink {
    /// The last part of the link.
    link: String,
}

/// What a person is shown of an approval gate.
#[derive(Serialize, JsonSchema)]
struct ApprovalPage {
    /// The gate.
    gate: ApprovalGate,
    /// The title of its thread.
    thread_title: String,
    /// Who asked for the approval, by handle.
    requested_by: String,
    /// The delegate who asked for that member, by handle; null if the member acted for itself.
    requested_actor: Option<String>,
    /// Who handed the link over, by handle.
    asked_by: String,
    /// Who the browser is signed in as, by handle.
    reader: String,
    /// Whether the session cannot accept, so that a token is needed beside it.
    needs_token: bool,
    /// When the link ends.
    expires_at: Time,
}

fn open_approval_link(cx: &Read<'_>, input: &OpenApprovalLink) -> Result<ApprovalPage> {
    let caller = cx.caller();
    caller.check_has(WorkspaceRead)?;
    let none = || Error::not_found("approval link");
    let link = Link::open(&input.link, cx.sealer());
    let is_live = |link: &Link| link.workspace == caller.workspace_id && cx.now() < link.expires_at;
    let link = link.filter(is_live).ok_or_else(none)?;
    let hidden = |error: Error| if error.code() == Code::NotFound { none() } else { error };
    let gate = visible_gate(cx, link.gate).map_err(hidden)?.open(cx)?;
    if gate.state != GateState::Pending {
        return Err(none());
    }
    let handle = |member: MemberId| Ok::<_, Error>(load_member(cx, member)?.handle);
    Ok(ApprovalPage {
        thread_title: visible_thread(cx, gate.thread_id).map_err(hidden)?.title,
        requested_by: handle(gate.requested_by)?,
        requested_actor: gate.requested_actor_id.map(handle).transpose()?,
        asked_by: handle(link.asked_by)?,
        reader: handle(caller.member_id()?)?,
        needs_token: !caller.capabilities.has(ApprovalGrant),
        expires_at: link.expires_at,
        gate,
    })
}
