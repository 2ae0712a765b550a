//! A workspace as a file: exporting, verifying and importing it.
//!
//! An export is evidence and a means to move: it has the rows of the workspace's tables, as their features
//! declare them, and its log, byte for byte. Content stays sealed, with the keys of live messages beside it,
//! or without any key. Credentials and the keys that wrap keys are in no export.
//!
//! - `form`: defines the parts of the file and its signature, `invalid`: lists why a file is refused
//! - `row`: writes a row of a table as a line
//! - `write`: writes an export, and `record_writer`: hashes and writes records on a second thread
//! - `pieces`: cuts JSON into values, `read`: reads a file part by part, and `verify`: verifies it
//! - `arriving_export`: verifies a file while it is received
//! - `record_lines`: stores a verified file to write it in steps, `copy`: replaces its ids, `insert` and
//!   `import`:
//!   write it to the database
//! - `charge`: limits the imports of a workspace, and `admin_token`: mints the token for the administrator of
//!   an imported one
//! - `removal`: removes rows in steps, `erase`: removes a workspace, and `staging`: removes remaining rows
//!   periodically

mod form;
mod invalid;
mod row;
mod pieces;
mod read;
mod record_writer;
mod write;
mod verify;
mod arriving_export;
mod record_lines;
mod copy;
mod insert;
mod removal;
mod erase;
mod staging;
mod charge;
mod admin_token;
mod import;

use std::io::Read as Source;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::capability::Capability::TokenAdmin;
use crate::error::{Code, Result};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::event::{EventKind, WorkspaceErased, WorkspaceImported};
use crate::log::signed_note::PublicKey;
use crate::op::{Effect, Feature, Read, Records, SharedState, TypedOperation, changing, reading};
use crate::spool::{CompleteSpool, FileContent, TakesFile, Upload};
use crate::time::Time;
pub use arriving_export::ArrivingExport;
use form::Envelope;
pub use form::Words;
pub use import::{ImportWorkspace, Imported, Mode};
pub(crate) use row::push_value;
pub use verify::ExportReport;
use write::Exporter;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .chore(staging::chore())
        .records(["imports", "charged_imports", "erased"].into_iter().map(Records::of_instance).collect())
        .events(vec![EventKind::of::<WorkspaceImported>(), EventKind::of::<WorkspaceErased>()])
        .operations(
            "workspaces",
            vec![
                changing("erase_workspace", Effect::Destructive)
                    .wants(erase::wants)
                    .run(erase::erase_workspace)
                    .title("Erase a workspace")
                    .post("/workspaces/{workspace_id}/erase")
                    .needs(&[TokenAdmin])
                    .rest_only()
                    .refuses(&[Code::WrongState, Code::LegalHold])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "confirm": "Night shift"})),
            ],
        )
        .operations(
            "portability",
            vec![
                reading(EXPORT_WORKSPACE)
                    .prepare(begin)
                    .download::<Envelope>(export_page)
                    .title("Export a workspace")
                    .when("Use to take a whole workspace with you as a signed file, for `import_workspace`.")
                    .get("/workspaces/{workspace_id}/export")
                    .needs(&[TokenAdmin])
                    .audited("workspace.export")
                    .whole_for_instance()
                    .refuses(&[Code::NotEnabled, Code::EventLogBroken, Code::InsufficientStorage])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "words": "none"})),
                reading("verify_workspace_export")
                    .file(verify_workspace_export)
                    .run(|_, _, report| Ok(report.clone()))
                    .short()
                    .title("Verify an export")
                    .when(
                        "Use before `import_workspace`, to check that a file is whole, signed and \
                         consistent. Nothing is stored.",
                    )
                    .post("/workspaces/export/verify")
                    .needs(&[TokenAdmin])
                    .refuses(&[Code::ExportInvalid, Code::InsufficientStorage])
                    .example(|_| json!({"envelope": example()})),
                changing(IMPORT_WORKSPACE, Effect::Write)
                    .file(import::prepare)
                    .wants(import::wants)
                    .in_steps(import::step)
                    .before_file(charge::check_before_file)
                    .title("Import a workspace")
                    .when("Use to restore or copy a workspace from the file of `export_workspace`.")
                    .post("/workspaces/import")
                    .needs(&[TokenAdmin])
                    .created()
                    .refuses(&[
                        Code::Forbidden,
                        Code::WrongState,
                        Code::WorkspaceExists,
                        Code::ExportInvalid,
                        Code::InsufficientStorage,
                    ])
                    .example(|_| json!({"mode": "restore", "envelope": example()})),
            ],
        )
}

/// Imports a workspace.
pub const IMPORT_WORKSPACE: TypedOperation<ImportWorkspace, Imported> =
    TypedOperation::new("import_workspace");

/// Exports a workspace.
pub const EXPORT_WORKSPACE: TypedOperation<ExportWorkspace, FileContent> =
    TypedOperation::new("export_workspace");

/// Returns a workspace as a signed file: the rows of its tables, and its whole log.
///
/// It has everything that members may see, also events in private channels. Each record is one line of the
/// file. The content of messages is sealed as it is in the log; `content_key` beside a message opens it while
/// the message lives.
///
/// It omits the keys of direct messages that you are not in, so that these can be read nowhere else: only an
/// export by the administrator of the machine has them. It has no tokens, other secrets, their hashes or the
/// keys that wrap keys. Over MCP it returns a file of up to 4 MiB; over HTTP there is no limit. A workspace
/// has one export in progress, for which others of it wait up to 10 s. It leaves an audit row
/// `workspace.export`.
///
/// Fails with 409 `not-enabled` if the service has no key to sign with; 409 `event-log-broken` if the log
/// does not verify; 507 `insufficient-storage` if the server has no space for the file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportWorkspace {
    /// The workspace. It must be yours.
    pub workspace_id: OwnWorkspaceId,
    /// `all` for message keys and every other text; `none` for evidence without content, which cannot be
    /// imported. Default: `all`.
    #[serde(default)]
    pub words: Words,
}

fn begin(input: &ExportWorkspace, shared: &SharedState, _: Time) -> Result<Exporter> {
    Exporter::new(input.words, &shared.settings)
}

fn export_page(
    cx: &Read<'_>,
    input: &ExportWorkspace,
    exporter: &mut Exporter,
) -> Result<Option<FileContent>> {
    let workspace_id = input.workspace_id.of(cx)?;
    exporter.page(cx, workspace_id)
}

/// Verifies an export: that it is whole, that this service or a key it knows has signed it, and that its log
/// verifies. Nothing is stored.
///
/// Over HTTP the file is the body, of any size up to a limit of the service; over MCP it is `envelope`, as
/// large as a request may be. A server reads one file at a time.
///
/// `reason` of a refusal is one of not-an-export, truncated, order, hash, signature, unknown-key,
/// credential-field, unknown-field and chain, and `record` the number of the record, from 1.
///
/// Over HTTP the file is read while it is received, and refused at the first bad record; 64 KiB of white
/// space in a row is bad.
///
/// Fails with 400 `export-invalid` if the file is not whole, not signed by such a key, or does not verify;
/// 507 `insufficient-storage` if the server has no space for it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct VerifyWorkspaceExport {
    /// The file: an object of the type `svc.workspace.export/1`.
    #[schemars(required)]
    envelope: Option<Upload>,
}

impl TakesFile for VerifyWorkspaceExport {
    fn file(&mut self) -> &mut Option<Upload> {
        &mut self.envelope
    }
}

fn verify_workspace_export(
    _: &VerifyWorkspaceExport,
    file: &CompleteSpool,
    shared: &SharedState,
    _: Time,
) -> Result<ExportReport> {
    verify_file(file.reader(0), shared.table.records(), &shared.settings.known_keys)
}

/// Returns the export of a small workspace.
fn example() -> Value {
    serde_json::from_str(include_str!("example.json")).unwrap_or_default()
}

/// Verifies a file: that it is a whole export, that one of these keys has signed it, and that its log
/// verifies. `declared` has the declarations of the tables.
///
/// Fails with `export-invalid` and the reason.
pub(crate) fn verify_file(
    file: impl Source,
    declared: &[Records],
    keys: &[PublicKey],
) -> Result<ExportReport> {
    verify::verify(file, declared, keys, &mut ()).map_err(invalid::InvalidFile::error)
}
