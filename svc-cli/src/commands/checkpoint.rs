//! Implements `svc checkpoint`, which signs the current end of an event log.

use clap::Args;
use serde::Serialize;
use svc_core::config::Config;
use svc_core::id::WorkspaceId;
use svc_core::setup::Variables;
use svc_core::signed_note::{NoteSigner, verifier_key};
use svc_core::verify::sign_checkpoint;
use svc_core::{Code, Database, Error, Result};

use super::DataFolder;
use crate::output::Printer;

/// Sign the current end of an event log.
///
/// Verifies the log and prints a note with the name of the log, its size and the root of its Merkle tree,
/// signed with SVC_EXPORT_SIGNING_KEY. Store the note elsewhere: it proves later that the log still contains
/// all the signed events (svc verify --checkpoint), even after the oldest events were pruned. The command
/// only reads data, and needs no token and no running service.
#[derive(Args)]
pub struct Checkpoint {
    #[command(flatten)]
    folder: DataFolder,
    /// Id of the workspace. May be omitted if there is only one workspace.
    #[arg(long, value_name = "ID")]
    workspace: Option<WorkspaceId>,
}

#[derive(Serialize)]
struct SignedSummary {
    workspace_id: WorkspaceId,
    /// Position of the last event, which is the size of the tree.
    size: u64,
    /// Root hash of the Merkle tree, as `sha256:<hex>`.
    root: String,
    /// Signed note of the checkpoint, as text.
    note: String,
    /// Public key of the signature as text: the key's name, id and bytes.
    verifier_key: String,
}

/// Runs `svc checkpoint`: verifies a log, and prints a signed note of its end.
pub fn run(command: &Checkpoint, variables: &Variables, output: &Printer) -> Result<()> {
    let data = &command.folder.data;
    let keys = Config::read_export_keys(variables.iter().cloned(), data)?;
    let signer = NoteSigner::configured(&keys).ok_or_else(|| {
        let missing = "set SVC_EXPORT_SIGNING_KEY to the key that signs: 32 bytes, as hex or base64";
        Error::new(Code::NotEnabled, missing)
    })?;
    let url = Config::read_database_url(variables.iter().cloned(), data)?;
    let signed = sign_checkpoint(&Database::at(url, data), command.workspace, &signer)?;
    let checkpoint = &signed.checkpoint;
    let printed = SignedSummary {
        workspace_id: signed.workspace_id,
        size: checkpoint.size,
        root: svc_core::hash::format_hash(&checkpoint.root),
        verifier_key: verifier_key(&checkpoint.origin, &signer.public()),
        note: signed.note,
    };
    output.print_result(&printed, &printed.note)
}
