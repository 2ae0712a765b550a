//! Checkpoints of a log: signing its size and root, and proving later that it still contains the signed
//! events.
//!
//! A checkpoint signs the root of the Merkle tree over the log. The log is verified while the tree is
//! computed. Pruning does not change the root, because the event about pruning contains the frontier of the
//! tree over the removed events.

use super::database::{open, the_log};
use super::walk::LogVerification;
use super::{Break, ChainReport, Defect, ExpectedFound};
use crate::Result;
use crate::error::{Code, Error};
use crate::id::WorkspaceId;
use crate::log::signed_note::{Checkpoint, NoteSigner, PublicKey};
use crate::store::refusal::refusal;
use crate::store::{Conn, Database};

/// Prefix of a log's name, before the id of the workspace.
const ORIGIN: &str = "svc/";

/// A checkpoint with its signed note.
#[derive(Clone, Debug)]
pub struct SignedCheckpoint {
    /// The workspace of the log.
    pub workspace_id: WorkspaceId,
    /// The checkpoint that was signed.
    pub checkpoint: Checkpoint,
    /// The text of the signed note.
    pub note: String,
}

/// Signs a checkpoint of the log of `workspace`, or of the only workspace.
///
/// Fails with `event-log-broken` if the log does not verify.
pub fn sign_checkpoint(
    database: &Database,
    workspace_id: Option<WorkspaceId>,
    signer: &NoteSigner,
) -> Result<SignedCheckpoint> {
    signed(database, workspace_id, signer).map_err(|error| refusal(error, database))
}

fn signed(
    database: &Database,
    workspace_id: Option<WorkspaceId>,
    signer: &NoteSigner,
) -> Result<SignedCheckpoint> {
    let (_opener, conn) = open(database)?;
    let workspace_id = the_log(&conn, workspace_id)?;
    let (report, verification) = walk(&conn, workspace_id, None)?;
    if let Some(broken) = report.broken {
        let reason = broken.defect.reason();
        let found = format!("the event log is broken at {}: {reason}; it is not signed", broken.lsn);
        return Err(Error::new(Code::EventLogBroken, found));
    }
    let end = verification.walk.verifier.tree.and_then(|tree| tree.end());
    let (size, root) = end.ok_or_else(|| Error::internal("a log was walked without its tree"))?;
    let checkpoint = checkpoint_of(workspace_id, size, root);
    let note = checkpoint.sign(signer);
    Ok(SignedCheckpoint { workspace_id, checkpoint, note })
}

/// Returns the checkpoint of a workspace's log.
pub(crate) fn checkpoint_of(workspace_id: WorkspaceId, size: u64, root: [u8; 32]) -> Checkpoint {
    Checkpoint { origin: format!("{ORIGIN}{workspace_id}"), size, root }
}

/// Verifies the log that a checkpoint refers to, and that the log contains the events that the checkpoint
/// signs.
///
/// Fails with 400 if none of the keys has signed the note, or if the note is not a checkpoint of a log.
pub fn verify_checkpoint(database: &Database, note: &str, keys: &[PublicKey]) -> Result<ChainReport> {
    let refused = |reason: &str| Error::malformed(format!("the checkpoint is refused: {reason}"));
    let checkpoint = Checkpoint::open(note, keys).map_err(|defect| refused(defect.reason()))?;
    let named = checkpoint.origin.strip_prefix(ORIGIN).and_then(|id| id.parse().ok());
    let workspace_id: WorkspaceId = named.ok_or_else(|| refused("it names no log of this service"))?;
    let (_opener, conn) = open(database).map_err(|error| refusal(error, database))?;
    let (mut report, verification) =
        walk(&conn, workspace_id, Some(checkpoint.size)).map_err(|error| refusal(error, database))?;
    let found = verification.walk.verifier.tree.and_then(|tree| tree.found());
    judge(&mut report, &checkpoint, found);
    Ok(report)
}

/// Adds to the report of a log whether the log matches the checkpoint. `found` is the root of the log at the
/// checkpoint's size.
fn judge(report: &mut ChainReport, checkpoint: &Checkpoint, found: Option<[u8; 32]>) {
    if !report.valid {
        return;
    }
    let size = i64::try_from(checkpoint.size).unwrap_or(i64::MAX);
    match found {
        Some(root) if root == checkpoint.root => report.expected = Some(ExpectedFound::Contained),
        None if size < report.floor.saturating_sub(1) => report.expected = Some(ExpectedFound::BelowFloor),
        _ => {
            let lsn = size.min(report.head.lsn.saturating_add(1));
            report.mark(Break { lsn, defect: Defect::Expected });
        }
    }
}

/// Walks a log while computing its Merkle tree, and keeps the root at size `wanted`.
fn walk(
    conn: &Conn,
    workspace_id: WorkspaceId,
    wanted: Option<u64>,
) -> Result<(ChainReport, LogVerification)> {
    let mut verification = LogVerification::with_tree(workspace_id, wanted);
    loop {
        if let Some(report) = verification.next_page(conn)? {
            return Ok((report, verification));
        }
    }
}
