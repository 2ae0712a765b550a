//! Export, verification and import of a workspace as a file.
//!
//! An export serves as evidence and to move a workspace: it contains the rows of the workspace's tables, as
//! their features declare them, and its log, byte for byte. Content stays sealed; an export either contains
//! the keys of live messages, or no keys. An export never contains credentials or the keys that wrap message
//! keys.
//!
//! - `form`: defines the format of the file and its signature, `invalid`: lists the reasons for refusing a
//!   file
//! - `row`: converts rows of tables to lines of the file and back
//! - `write`: writes an export, `record_writer`: hashes and writes its records on a second thread
//! - `pieces`: splits JSON into values, `read`: reads a file value by value, `verify`: verifies the file
//! - `incoming_export`: verifies a file while it is received
//! - `record_lines`: stores the records of a verified file, `copy`: replaces their ids
//! - `insert`, `import`: write the records to the database
//! - `charge`: limits the imports of a workspace, `admin_token`: mints a token for an imported workspace
//! - `removal`: removes rows in steps, `erase`: erases a workspace, `staging`: removes remaining rows
//!   periodically

pub(crate) mod form;
mod invalid;
mod row;
mod pieces;
mod read;
mod record_writer;
mod write;
pub(crate) mod verify;
mod incoming_export;
mod record_lines;
mod copy;
mod insert;
mod removal;
pub(crate) mod erase;
mod staging;
mod charge;
pub(crate) mod admin_token;
pub(crate) mod import;

use std::io::Read as Source;

use serde::Serialize;
use serde_json::{Value, json};

use crate::capability::Capability::TokenAdmin;
use crate::error::{Code, Result};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::event::{EventKind, WorkspaceErased, WorkspaceImported};
use crate::log::signed_note::PublicKey;
use crate::op::{Effect, Feature, Read, Records, SharedState, changing, reading};
use crate::request::request;
use crate::spool::{CompleteSpool, FileContent, HasUpload, Upload};
use crate::time::Time;
use form::Envelope;
pub use form::ExportTexts;
pub use incoming_export::IncomingExport;
pub(crate) use row::push_column_json;
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
                    .wants(erase::write_needs)
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
                reading("export_workspace")
                    .prepare(begin_export)
                    .download::<Envelope>(write_export_page)
                    .title("Export a workspace")
                    .when("Export a whole workspace as a signed file, which `import_workspace` accepts.")
                    .get("/workspaces/{workspace_id}/export")
                    .needs(&[TokenAdmin])
                    .audited("workspace.export")
                    .instance_sees_all_channels()
                    .refuses(&[Code::NotEnabled, Code::EventLogBroken, Code::InsufficientStorage])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "words": "none"})),
                reading("verify_workspace_export")
                    .file(verify_workspace_export)
                    .run(|_, _, report| Ok(report.clone()))
                    .short()
                    .title("Verify an export")
                    .when(
                        "Check that an export file is complete, correctly signed and consistent, without \
                         importing it. Use before `import_workspace`.",
                    )
                    .post("/workspaces/export/verify")
                    .needs(&[TokenAdmin])
                    .refuses(&[Code::ExportInvalid, Code::InsufficientStorage])
                    .example(|_| json!({"envelope": example()})),
                changing("import_workspace", Effect::Write)
                    .file(import::prepare)
                    .wants(import::write_needs)
                    .in_steps(import::run_step)
                    .before_file(charge::check_limit_before_upload)
                    .title("Import a workspace")
                    .when("Restore or copy a workspace from a file that `export_workspace` returned.")
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

request! {
    /// Exports a workspace as a signed file: the rows of its tables, and its whole log.
    ///
    /// The file contains everything that members may see, including events in private channels. Each record
    /// is one line of the file. The content of messages is sealed as it is in the log; `content_key` next to
    /// a message unseals it while the message is not withdrawn.
    ///
    /// The keys of direct messages that you are not in are omitted, so those messages cannot be read in an
    /// import of the file. Only an export by the administrator of the machine contains their keys. The file
    /// contains no tokens or other secrets, no hashes of them, and no keys that wrap keys. Over MCP the call
    /// returns a file of up to 4 MiB; over HTTP its size is not limited. Only one export runs per workspace
    /// at a time; another waits for up to 10 s. Each export writes an audit row `workspace.export`.
    ///
    /// Fails with 409 `not-enabled` if the service has no key to sign with; 409 `event-log-broken` if the log
    /// does not verify; 507 `insufficient-storage` if the server has no space for the file.
    #[derive(Debug, Serialize)]
    pub struct ExportWorkspace {
        /// The workspace. It must be yours.
        pub workspace_id: OwnWorkspaceId,
        /// `all` includes message keys and every other text; `none` omits all content, as evidence that
        /// cannot be imported. Default: `all`.
        #[serde(default)]
        pub words: ExportTexts,
    }

    export_workspace() -> FileContent
}

fn begin_export(input: &ExportWorkspace, shared: &SharedState, _: Time) -> Result<Exporter> {
    Exporter::new(input.words, &shared.settings)
}

fn write_export_page(
    cx: &Read<'_>,
    input: &ExportWorkspace,
    exporter: &mut Exporter,
) -> Result<Option<FileContent>> {
    let workspace_id = input.workspace_id.of(cx)?;
    exporter.write_page(cx, workspace_id)
}

request! {
    /// Verifies that an export file is complete, signed with a known key, and contains an intact log.
    ///
    /// Over HTTP the file is the request body, up to a size limit of the service; over MCP it is `envelope`,
    /// limited by the size of a request.
    ///
    /// If the file is refused, `reason` is one of not-an-export, truncated, order, hash, signature,
    /// unknown-key, credential-field, unknown-field and chain, and `record` is the number of the faulty
    /// record, from 1. A server reads one file at a time.
    ///
    /// Over HTTP the file is read while it is received, and refused at the first faulty record; 64 KiB of
    /// consecutive white space is a fault. Known keys are those of this service and those that its operator
    /// has added. Nothing is stored.
    ///
    /// Fails with 400 `export-invalid` if the file is incomplete, not signed with a known key, or does not
    /// verify; 507 `insufficient-storage` if the server has no space for it.
    struct VerifyWorkspaceExport {
        /// The export file: an object of the type `svc.workspace.export/1`.
        #[schemars(required)]
        envelope: Option<Upload>,
    }

    verify_workspace_export(envelope: Upload) -> ExportReport
}

impl HasUpload for VerifyWorkspaceExport {
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

/// Returns the export of a small sample workspace.
fn example() -> Value {
    serde_json::from_str(include_str!("example.json")).unwrap_or_default()
}

/// Verifies an export file against `declared`, the declarations of its tables.
///
/// The file must be complete and signed with one of `keys`, and its log must verify.
///
/// Fails with `export-invalid` and the reason.
pub(crate) fn verify_file(
    file: impl Source,
    declared: &[Records],
    keys: &[PublicKey],
) -> Result<ExportReport> {
    verify::verify(file, declared, keys, &mut ()).map_err(invalid::InvalidFile::into_error)
}
