//! Signs checkpoints of a log, and verifies later that the log still contains the signed events.
//!
//! A checkpoint signs the root of the Merkle tree over the log. The log is verified while the tree is
//! computed. Pruning does not change the root, because the event that declares it contains the frontier of
//! the tree over the removed events.

use super::database::{find_workspace, open_for_audit};
use super::walk::LogVerification;
use super::{Break, ChainReport, Defect, ExpectedFound};
use crate::Result;
use crate::error::{Code, Error};
use crate::id::WorkspaceId;
use crate::log::signed_note::{Checkpoint, NoteSigner, PublicKey};
use crate::store::refusal::refusal;
use crate::store::{Conn, Database};

/// Prefix of a log's name in checkpoints, before the id of the workspace.
const LOG_NAME_PREFIX: &str = "svc/";

/// A checkpoint of a workspace's log, and the signed note of the checkpoint.
#[derive(Clone, Debug)]
pub struct SignedCheckpoint {
    /// The workspace of the log.
    pub workspace_id: WorkspaceId,
    /// The checkpoint that the note signs.
    pub checkpoint: Checkpoint,
    /// The text of the signed note.
    pub note: String,
}

/// Signs a checkpoint of the log of the workspace `workspace_id`, or of the only workspace if that is `None`.
///
/// Fails with `event-log-broken` if the log does not verify.
pub fn sign_checkpoint(
    database: &Database,
    workspace_id: Option<WorkspaceId>,
    signer: &NoteSigner,
) -> Result<SignedCheckpoint> {
    walk_and_sign(database, workspace_id, signer).map_err(|error| refusal(error, database))
}

fn walk_and_sign(
    database: &Database,
    workspace_id: Option<WorkspaceId>,
    signer: &NoteSigner,
) -> Result<SignedCheckpoint> {
    let (_opener, conn) = open_for_audit(database)?;
    let workspace_id = find_workspace(&conn, workspace_id)?;
    let (report, verification) = walk_with_tree(&conn, workspace_id, None)?;
    if let Some(broken) = report.broken {
        let reason = broken.defect.reason();
        let detail = format!("the event log is broken at {}: {reason}; it is not signed", broken.lsn);
        return Err(Error::new(Code::EventLogBroken, detail));
    }
    let end = verification.walk.verifier.tree.and_then(|tree| tree.size_and_root());
    let (size, root) = end.ok_or_else(|| Error::internal("a log was walked without its tree"))?;
    let checkpoint = log_checkpoint(workspace_id, size, root);
    let note = checkpoint.sign(signer);
    Ok(SignedCheckpoint { workspace_id, checkpoint, note })
}

/// Returns the checkpoint of a workspace's log with this size and Merkle root.
pub(crate) fn log_checkpoint(workspace_id: WorkspaceId, size: u64, root: [u8; 32]) -> Checkpoint {
    Checkpoint { origin: format!("{LOG_NAME_PREFIX}{workspace_id}"), size, root }
}

/// Verifies the log of a checkpoint, and that it still contains the events that the checkpoint signs.
///
/// Fails with 400 if none of the keys has signed the note, or if the note is not a checkpoint of a log.
pub fn verify_checkpoint(database: &Database, note: &str, keys: &[PublicKey]) -> Result<ChainReport> {
    let refused = |reason: &str| Error::malformed(format!("the checkpoint is refused: {reason}"));
    let checkpoint = Checkpoint::open(note, keys).map_err(|defect| refused(defect.reason()))?;
    let named = checkpoint.origin.strip_prefix(LOG_NAME_PREFIX).and_then(|id| id.parse().ok());
    let workspace_id: WorkspaceId =
        named.ok_or_else(|| refused("its name is not the name of a log of this service"))?;
    let (_opener, conn) = open_for_audit(database).map_err(|error| refusal(error, database))?;
    let (mut report, verification) = walk_with_tree(&conn, workspace_id, Some(checkpoint.size))
        .map_err(|error| refusal(error, database))?;
    let root_at_size = verification.walk.verifier.tree.and_then(|tree| tree.requested_root());
    compare_checkpoint(&mut report, &checkpoint, root_at_size);
    Ok(report)
}

/// Adds to the report of an intact log whether the log matches the checkpoint.
///
/// `root_at_size` is the root of the log's Merkle tree at the size of the checkpoint.
fn compare_checkpoint(report: &mut ChainReport, checkpoint: &Checkpoint, root_at_size: Option<[u8; 32]>) {
    if !report.valid {
        return;
    }
    let size = i64::try_from(checkpoint.size).unwrap_or(i64::MAX);
    match root_at_size {
        Some(root) if root == checkpoint.root => report.expected = Some(ExpectedFound::Contained),
        None if size < report.floor.saturating_sub(1) => report.expected = Some(ExpectedFound::BelowFloor),
        _ => {
            let lsn = size.min(report.head.lsn.saturating_add(1));
            report.record_defect(Break { lsn, defect: Defect::Expected });
        }
    }
}

/// Walks a log while computing its Merkle tree, and keeps the root at size `requested_size`.
fn walk_with_tree(
    conn: &Conn,
    workspace_id: WorkspaceId,
    requested_size: Option<u64>,
) -> Result<(ChainReport, LogVerification)> {
    let mut verification = LogVerification::with_tree(workspace_id, requested_size);
    loop {
        if let Some(report) = verification.next_page(conn)? {
            return Ok((report, verification));
        }
    }
}
