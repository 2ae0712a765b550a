//! Erasing a workspace: only its id and the end of its log remain.
//!
//! The first transaction ends all access. Then the keys of the workspace's content, and after them the
//! remaining rows, are removed in bounded steps. The workspace's row in the table `erased` stores the
//! progress.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::removal::{RemovalProgress, remove_some_rows};
use crate::conversation::scrub;
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::identity::workspaces::{self, OwnWorkspaceId};
use crate::limits::NAME_MAX;
use crate::log::event::{CachedEntryKind, Subject, WorkspaceErased};
use crate::op::{DestroyPermit, Write, WriteNeeds, without_idempotency_keys};
use crate::request::request;
use crate::text::Text;
use crate::time::Time;

request! {
    /// Erases your workspace: its members, channels, threads, messages, settings and its log.
    ///
    /// Every credential of the workspace is revoked immediately, including yours, so its data can no longer
    /// be read. The keys of its content are removed soon after, and then its rows, in steps. One event
    /// remains in the log of the instance, with the id of the workspace and the end of its log, which can
    /// still prove that an export of the workspace is complete. Only `import_workspace` with an export can
    /// restore an erased workspace.
    ///
    /// Fails with 409 `wrong-state` if the instance has no other workspace; 409 `legal-hold` if the workspace
    /// is under a legal hold.
    pub(super) struct EraseWorkspace {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// The current name of the workspace, as a confirmation.
        confirm: Text<1, NAME_MAX>,
    }

    erase_workspace(confirm: Text<1, NAME_MAX>) -> ErasureResult
}

/// The data that remain of an erased workspace.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Erased")]
#[non_exhaustive]
pub struct ErasureResult {
    /// Id of the erased workspace.
    pub workspace_id: WorkspaceId,
    /// When the workspace was erased.
    pub erased_at: Time,
    /// The position of the last event in the workspace's log.
    pub lsn: i64,
    /// The content hash of the last event, as `sha256:<hex>`.
    pub content_hash: String,
}

/// Returns the log to lock for an erasure: the log of the instance.
///
/// The lock prevents two requests from erasing the last two workspaces at the same time.
pub(super) fn write_needs(_: &EraseWorkspace) -> WriteNeeds {
    WriteNeeds::workspace(WorkspaceId::INSTANCE)
}

pub(super) fn erase_workspace(cx: &mut Write<'_>, input: &EraseWorkspace) -> Result<ErasureResult> {
    let id = input.workspace_id.of(cx)?;
    let workspace = workspaces::load_workspace(cx, id)?;
    if workspace.name != *input.confirm {
        return Err(Error::in_field("confirm", "it is not the name of the workspace"));
    }
    let permit = cx.permit()?;
    if workspaces::is_only_live_workspace(cx, id)? {
        return Err(Error::wrong_state("the only workspace of an instance cannot be erased"));
    }
    let (lsn, hash): (i64, [u8; 32]) =
        cx.one(SELECT_HEAD, &[&id])?.ok_or_else(|| Error::internal("the workspace has no log"))?;
    let content_hash = crate::hash::format_hash(&hash);
    let event = WorkspaceErased { workspace_id: id, lsn, hash: content_hash.clone() };
    cx.emit_in(WorkspaceId::INSTANCE, Subject::WORKSPACE, &event)?;
    cx.audit_in(WorkspaceId::INSTANCE, "workspace.erase", json!({"workspace_id": id, "lsn": lsn}))?;
    let now = cx.now();
    cx.execute_any(DELETE_ERASED, &[&id])?;
    cx.execute(1, INSERT_ERASED, &[&id, &now, &lsn, &hash])?;
    // If the workspace is restored later, that is a new import.
    cx.execute_any(DELETE_IMPORT, &[&id])?;
    workspaces::hide(cx, id)?;
    cx.invalidate(CachedEntryKind::Access)?;
    revoke_access(cx, &permit, id)?;
    Ok(ErasureResult { workspace_id: id, erased_at: now, lsn, content_hash })
}

const SELECT_HEAD: &str = "select lsn, hash from heads where workspace_id = $1";

const DELETE_ERASED: &str = "delete from erased where workspace_id = $1";

const INSERT_ERASED: &str = "insert into erased (workspace_id, at, lsn, hash) values ($1, $2, $3, $4)";

const DELETE_IMPORT: &str = "delete from imports where workspace_id = $1";

// The request cannot be repeated: its credential ends with the workspace.
without_idempotency_keys! { EraseWorkspace => ErasureResult }

/// Removes the rows that grant access to a workspace, such as its tokens.
fn revoke_access(cx: &mut Write<'_>, _: &DestroyPermit<'_>, workspace: WorkspaceId) -> Result<()> {
    let access = cx.records().iter().rev().filter(|records| records.grants_access());
    for records in access {
        cx.execute_any(records.remove_all_statement(), &[&workspace])?;
    }
    Ok(())
}

/// Removes some rows of a workspace that is being erased. Returns whether more rows may remain.
pub(super) fn erase_some_rows(cx: &mut Write<'_>, workspace: WorkspaceId) -> Result<bool> {
    let permit = cx.in_workspace(workspace, |cx| cx.permit().map(drop));
    permit?;
    let stored = cx.one::<(Option<String>,)>(SELECT_PROGRESS, &[&workspace])?.and_then(|(place,)| place);
    let mut progress = RemovalProgress::parse(stored.as_deref())?;
    // The mark of this scrub request is negative, so that it differs from the position of every event.
    let because = cx.now().micros().saturating_neg();
    if progress.may_remove_keys(cx.records()) {
        cx.in_workspace(WorkspaceId::INSTANCE, |cx| scrub::request_workspace_scrub(cx, workspace, because))?;
    }
    let is_left = remove_some_rows(cx, workspace, &mut progress)?;
    cx.execute_any(SET_PROGRESS, &[&workspace, &progress.to_json()?])?;
    if !is_left {
        cx.in_workspace(workspace, |cx| scrub::request_plaintext_scrub(cx, because))?;
    }
    Ok(is_left)
}

const SELECT_PROGRESS: &str = "select place from erased where workspace_id = $1";

const SET_PROGRESS: &str = "update erased set place = $2 where workspace_id = $1";
