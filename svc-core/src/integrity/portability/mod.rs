//! A workspace as a file: exporting it.
//!
//! An export is evidence and a means to move: it has the rows of the workspace's tables, as their features
//! declare them, and its log, byte for byte. Words stay sealed, with the keys of the messages that live
//! beside them, or without any key. What proves who somebody is, and what wraps keys, is in no export.
//!
//! - `form`: the parts of the file, and what its signature covers
//! - `row`: a row of a table as a line
//! - `write`: writing it
//! - `read`: reading it part by part, and `verify`: whether it is one

mod form;
mod read;
mod row;
mod write;
mod verify;

use std::io::Read as Source;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::capability::Capability::TokenAdmin;
use crate::error::{Code, Result};
use crate::id::WorkspaceId;
use crate::identity::workspaces::own_workspace;
use crate::log::note::PublicKey;
use crate::op::{Feature, Read, Records, Shared, TypedOperation, download};
use crate::spool::Content;
use form::Envelope;
pub use form::Words;
pub use verify::ExportReport;
use write::Exporter;

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "portability",
        vec![
            download::<_, _, Envelope>(EXPORT_WORKSPACE, begin, export_page)
                .title("Export a workspace")
                .get("/workspaces/{workspace_id}/export")
                .needs(&[TokenAdmin])
                .audited("workspace.export")
                .refuses(&[Code::NotEnabled, Code::EventLogBroken])
                .example(|w| json!({"workspace_id": w.id("workspace"), "words": "none"})),
        ],
    )
}

/// Exports a workspace.
pub const EXPORT_WORKSPACE: TypedOperation<ExportWorkspace, Content> =
    TypedOperation::new("export_workspace");

/// Returns a workspace as a signed file: the rows of its tables, and its whole log.
///
/// Everything that members may see is in it, also what happened in private channels. Each record is one line
/// of the file. The content of messages is sealed as it is in the log; `content_key` beside a message opens
/// it while the message lives. Tokens, other secrets, their hashes and the keys that wrap keys are not in it.
/// Over MCP a file of at most 4 MiB is returned; over HTTP there is no limit. A server makes one export at a
/// time, and leaves an audit row `workspace.export`.
///
/// Fails with 409 `not-enabled` if the service has no key to sign with; 409 `event-log-broken` if the log
/// does not verify.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportWorkspace {
    /// The workspace. It must be yours.
    pub workspace_id: WorkspaceId,
    /// `all` for the keys of messages, results and checkpoints of claims; `none` for evidence without words,
    /// which cannot be imported. Default: `all`.
    #[serde(default)]
    pub words: Words,
}

fn begin(input: &ExportWorkspace, shared: &Shared) -> Result<Exporter> {
    Exporter::new(input.workspace_id, input.words, &shared.settings)
}

fn export_page(cx: &Read<'_>, input: &ExportWorkspace, exporter: &mut Exporter) -> Result<Option<Content>> {
    own_workspace(cx, input.workspace_id)?;
    exporter.page(cx)
}

/// Verifies a file: that it is a whole export, that one of these keys has signed it, and that its log
/// verifies. `declared` is what the tables hold.
///
/// Fails with `export-invalid` and the reason.
pub(crate) fn verify_file(
    file: impl Source,
    declared: &[Records],
    keys: &[PublicKey],
) -> Result<ExportReport> {
    verify::verify(file, declared, keys, &mut ()).map_err(read::Invalid::error)
}
