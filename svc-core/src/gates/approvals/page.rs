//! Reading an approval gate through a link, for the page of the board that a person opens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::link::LinkContent;
use super::{ApprovalGate, GateState, visible_gate};
use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::capability::Right;
use crate::coordination::thread_row::{Thread, visible_thread};
use crate::error::{Code, Error};
use crate::identity::members::load_member;
use crate::op::{Frame, Operation, Read, read, without_requests};
use crate::time::Time;

/// Returns the operation `open_approval_link`.
pub(super) fn operation() -> Operation {
    read("open_approval_link", open_approval_link)
        .title("Show an approval gate to a person")
        .get("/ui/approvals/{link}")
        .framed(Frame::Approval)
        .as_page()
        .needs(&[Right::Session])
        .example(|_| json!({"link": "sealed"}))
}

without_requests! { OpenApprovalLink }

/// Returns the approval gate of a link to the signed-in member.
///
/// The link grants no rights: the reader may see the gate only if the reader may see the thread, and may
/// decide the gate only with the required capabilities. A link expires after an hour, or earlier if the gate
/// is decided. A browser receives the board's page, which then sends the same request for JSON.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OpenApprovalLink {
    /// The last path segment of the link.
    link: String,
}

/// An approval gate with its thread, for the page of an approval link.
#[derive(Serialize, JsonSchema)]
struct OpenedApprovalLink {
    /// The approval gate that the link refers to.
    gate: ApprovalGate,
    /// The thread that contains the gate.
    thread: Thread,
    /// Handle of the member who received the link.
    asked_by: String,
    /// Time at which the link expires.
    expires_at: Time,
}

fn open_approval_link(cx: &Read<'_>, input: &OpenApprovalLink) -> Result<OpenedApprovalLink> {
    let caller = cx.caller();
    caller.check_capability(WorkspaceRead)?;
    let none = || Error::not_found("approval link");
    let link = LinkContent::open(&input.link, cx.sealer());
    let is_live = |link: &LinkContent| link.workspace == caller.workspace_id && cx.now() < link.expires_at;
    let link = link.filter(is_live).ok_or_else(none)?;
    let hidden = |error: Error| if error.code() == Code::NotFound { none() } else { error };
    let gate = visible_gate(cx, link.gate).map_err(hidden)?.into_gate(cx)?;
    if gate.state != GateState::Pending {
        return Err(none());
    }
    Ok(OpenedApprovalLink {
        thread: visible_thread(cx, gate.thread_id).map_err(hidden)?,
        asked_by: load_member(cx, link.recipient)?.handle,
        expires_at: link.expires_at,
        gate,
    })
}
