//! Importing an export file as a workspace of this instance.
//!
//! The whole file is verified before anything is written. Then the rows are written in bounded steps. They
//! stay invisible: no credential gives access to the workspace, and periodic work ignores it. A single commit
//! makes the workspace visible. A chore removes the rows of an abandoned import. A repeated import with the
//! same id continues, or returns the first result.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::admin_token::{self, AdminToken};
use super::charge::{self, LEASE};
use super::copy::{RecordCollector, WorkspaceCopy};
use super::form::{ExportHead, ExportHeader, ExportTexts};
use super::insert::{insert_event, insert_row};
use super::invalid::{InvalidFile, InvalidReason};
use super::record_lines::{
    DeferredColumn, Line, LineStep, LineWriter, RecordStore, StepReader, StoredRecords,
};
use super::staging::{REMOVAL_HOLDER, remove_staged_rows};
use super::verify::{ExportReport, verify};
use crate::error::{Code, Error, Result};
use crate::hash::{parse_hash, sha256};
use crate::id::{ImportId, MemberId, WorkspaceId};
use crate::identity::members::AnyHandle;
use crate::identity::workspaces;
use crate::limits::IMPORT_ID_MAX;
use crate::log::event::{Subject, WorkspaceImported};
use crate::log::floor::EventsPruned;
use crate::op::{ImportedHead, SharedState, Write, WriteNeeds, without_idempotency_keys};
use crate::request::request;
use crate::spool::{CompleteSpool, HasUpload, Upload};
use crate::store::{FromRow, Value as StoredValue, is_older_schema};
use crate::text::Text;
use crate::time::Time;

/// Time after an erasure for which the workspace cannot be restored.
const RESTORE_DELAY: Duration = Duration::from_secs(30);

/// Whether an import keeps the ids of the file or replaces them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Mode")]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ImportMode {
    /// Each object gets a new id, so the file becomes a separate workspace with its own log.
    New,
    /// All ids and every byte of the log are kept.
    Restore,
}

crate::argument::arguments! { ImportMode }

impl fmt::Display for ImportMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ImportMode {
    fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Restore => "restore",
        }
    }
}

request! {
    /// Imports an export as a workspace of this instance, and returns that workspace.
    ///
    /// The file must verify and be signed by this service or with a known key. `restore` keeps every id and
    /// every byte of the log. `new` makes a copy: each id and content hash of the file is replaced
    /// everywhere, including in members' texts, and content gets new keys; positions, times and everything
    /// else stay. Legal holds and sign-in identities are not copied. A handle that another workspace uses is
    /// dropped.
    ///
    /// The whole workspace becomes visible in one step when the import is complete. Only the bearer of the
    /// token returned for `admin_handle` has access to it; its secret is returned only once. With an
    /// `import_id`, an interrupted call may be repeated: it continues, or returns the first result, without
    /// the secret.
    ///
    /// The imported workspace shares the limits of your workspace: rate limits and all other quotas count for
    /// both together, and also for copies of the copy. Together they may import 10 workspaces in 24 hours
    /// (`SVC_IMPORT_WORKSPACES_MAX`), including ones erased later; beyond that, the call fails with 429
    /// `rate-limited` and `retry_after_secs`. Failed imports do not count. These limits do not apply if your
    /// token carries `operator:global`.
    ///
    /// Over HTTP the file is the request body; over MCP it is `envelope`, limited by the size of a request.
    /// `verify_workspace_export` lists the reasons for which a file is refused. While another call imports
    /// the workspace, or shortly after that call was interrupted, the call fails with 503 `overloaded`: try
    /// again.
    ///
    /// Fails with 403 `forbidden` if the workspace was erased here and your token does not carry
    /// `operator:global`; 409 `wrong-state` if the `import_id` was used for another file or mode; 409
    /// `workspace-exists` if the instance already has the workspace, or an object with one of its ids; 400
    /// `export-invalid` if the file does not verify or has no content; 507 `insufficient-storage` if the
    /// server has no space for it.
    #[derive(Debug, Serialize)]
    pub struct ImportWorkspace {
        /// Whether to keep the ids of the file or replace them.
        pub mode: ImportMode,
        /// An id for this import, with which you can repeat the call. Default: a new id.
        pub import_id: Option<Text<1, IMPORT_ID_MAX>>,
        /// The handle of a member to mint a token for, with those capabilities of `svc.human.admin` that your
        /// token has. Default: no token is minted.
        ///
        /// The new token also has your token's quotas.
        pub admin_handle: Option<AnyHandle>,
        /// The export file: an object of the type `svc.workspace.export/1`.
        #[schemars(required)]
        pub envelope: Option<Upload>,
    }

    import_workspace(mode: ImportMode, envelope: Upload) -> ImportResult
}

impl HasUpload for ImportWorkspace {
    fn file(&mut self) -> &mut Option<Upload> {
        &mut self.envelope
    }
}

/// The exported workspace, and the end of its log in the file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ImportSource {
    /// Id of the exported workspace.
    pub workspace_id: WorkspaceId,
    /// The position of the newest event in the file.
    pub head_lsn: i64,
    /// The content hash of the newest event, as `sha256:<hex>`.
    pub head_hash: String,
}

// Repeats are identified by `import_id`, not by an idempotency key.
without_idempotency_keys! { ImportWorkspace => ImportResult }

/// The result of an import.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Imported")]
#[non_exhaustive]
pub struct ImportResult {
    /// Id of the imported workspace.
    pub workspace_id: WorkspaceId,
    /// The name of the imported workspace.
    pub name: String,
    /// The handle of the imported workspace; null if the file has no handle, or if another workspace uses
    /// that handle.
    pub handle: Option<String>,
    /// Whether the ids of the file were kept or replaced.
    pub mode: ImportMode,
    /// Whether this call created the workspace; false if an earlier call with the same `import_id` did.
    pub created: bool,
    /// The number of events in the file.
    pub events: u64,
    /// The position of the oldest event in the imported log.
    pub floor: i64,
    /// The position of the newest event in the imported log, before a token was minted.
    pub head_lsn: i64,
    /// The content hash of the newest event, as `sha256:<hex>`.
    pub head_hash: String,
    /// Id of the exported workspace and the end of its log in the file.
    pub source: ImportSource,
    /// The token for the member `admin_handle`; null if no token was requested, or if an earlier call
    /// returned it.
    pub admin_token: Option<AdminToken>,
}

/// A verified file that is being imported.
pub(super) struct VerifiedFile {
    import_id: Option<String>,
    holder: Option<Uuid>,
    mode: ImportMode,
    /// The header of the uploaded file.
    source: ExportHeader,
    /// The header of the file as it is imported, which differs for a copy.
    header: ExportHeader,
    /// The event that declares the older events that a copy lacks; `None` if no event is missing.
    pruning_event: Option<EventsPruned>,
    events: u64,
    signer: String,
    digest: [u8; 32],
    lines: StepReader,
    deferred: Vec<DeferredColumn>,
    /// The handle of the workspace.
    handle: Option<String>,
    admin_member: Option<MemberId>,
}

/// Reads and verifies a file, and passes the records to `store`. Fails if the file has no content.
fn verify_and_store(
    file: &CompleteSpool,
    shared: &SharedState,
    store: &mut (impl RecordStore + Send),
) -> Result<ExportReport> {
    let known = &shared.settings.known_keys;
    let report = match verify(file.reader(0), shared.table.records(), known, store) {
        Ok(report) => report,
        Err(invalid) => return Err(store.take_error().unwrap_or_else(|| invalid.into_error())),
    };
    if report.header.words == ExportTexts::None {
        let detail = "the file was exported without content, so it cannot be imported";
        return Err(InvalidFile::new(InvalidReason::NotAnExport, detail).into_error());
    }
    Ok(report)
}

/// Verifies the file and prepares its rows for import.
pub(super) fn prepare(
    input: &ImportWorkspace,
    file: &CompleteSpool,
    shared: &SharedState,
    _: Time,
) -> Result<VerifiedFile> {
    let (report, WorkspaceCopy { header, records, pruning_event }) = match input.mode {
        ImportMode::Restore => {
            let mut writer = LineWriter::new(shared.settings.spools.create(file.payer())?);
            let report = verify_and_store(file, shared, &mut writer)?;
            let copy = WorkspaceCopy {
                header: report.header.clone(),
                records: writer.finish()?,
                pruning_event: None,
            };
            (report, copy)
        }
        ImportMode::New => {
            let mut collector = RecordCollector::new(shared, file.payer())?;
            let report = verify_and_store(file, shared, &mut collector)?;
            let copy = collector.into_copy(&report.header)?;
            (report, copy)
        }
    };
    let StoredRecords { lines, deferred, workspace_handle, member_ids } = records;
    let admin_member = match &input.admin_handle {
        None => None,
        Some(handle) => match member_ids.get(&**handle) {
            Some(StoredValue::Uuid(id)) => Some(MemberId::from(*id)),
            _ => return Err(Error::not_found("member called admin_handle in the file")),
        },
    };
    Ok(VerifiedFile {
        import_id: input.import_id.as_ref().map(|id| id.to_string()),
        holder: None,
        events: report.events,
        signer: report.signed_by.clone(),
        digest: sha256(report.signed_text.as_bytes()),
        mode: input.mode,
        source: report.header,
        header,
        pruning_event,
        lines: StepReader::new(lines.spooled, Arc::clone(&shared.table)),
        deferred,
        handle: workspace_handle,
        admin_member,
    })
}

/// Returns the log to lock for an import, and the error code for ids that already exist.
pub(super) fn write_needs(_: &ImportWorkspace) -> WriteNeeds {
    WriteNeeds {
        id_conflict_code: Some(Code::WorkspaceExists),
        ..WriteNeeds::workspace(WorkspaceId::INSTANCE)
    }
}

/// The row that stores the progress of an import.
struct ImportRow {
    digest: [u8; 32],
    mode: String,
    workspace_id: WorkspaceId,
    reached: i64,
    holder: Uuid,
    until: Time,
    outcome: Option<String>,
    charged_to: Option<WorkspaceId>,
}

impl FromRow for ImportRow {
    fn from_row(row: &mut crate::store::Row) -> Result<Self> {
        Ok(Self {
            digest: row.take()?,
            mode: row.take()?,
            workspace_id: row.take()?,
            reached: row.take()?,
            holder: row.take()?,
            until: row.take()?,
            outcome: row.take()?,
            charged_to: row.take()?,
        })
    }
}

/// Performs the next step of an import. Returns the result after the last step.
pub(super) fn run_step(
    cx: &mut Write<'_>,
    _: &ImportWorkspace,
    verified: &mut VerifiedFile,
) -> Result<Option<ImportResult>> {
    let import_id = match &verified.import_id {
        Some(id) => id.clone(),
        None => verified.import_id.insert(cx.new_id::<ImportId>()?.to_string()).clone(),
    };
    let import_id = charge::scoped_import_id(cx.caller(), &import_id);
    let holder = match verified.holder {
        Some(holder) => holder,
        None => *verified.holder.insert(cx.new_id::<ImportId>()?.uuid()),
    };
    let row: Option<ImportRow> = cx.one(SELECT_IMPORT, &[&import_id])?;
    let until = cx.now().shifted(i64::try_from(LEASE.as_micros()).unwrap_or(i64::MAX));
    let (reached, held_by, charged_to) = match row {
        None => {
            if !begin_staging(cx, verified, (&import_id, holder, until))? {
                return Ok(None);
            }
            (0, holder, charge::charged_workspace(cx.caller()))
        }
        Some(row) => {
            if row.digest != verified.digest || row.mode != verified.mode.name() {
                return Err(Error::wrong_state("the import_id was used for another file or mode"));
            }
            if let Some(outcome) = row.outcome {
                let imported: ImportResult = serde_json::from_str(&outcome).map_err(Error::internal)?;
                return Ok(Some(ImportResult { created: false, ..imported }));
            }
            let is_own = row.holder == holder;
            if !is_own && is_in_progress(row.holder, row.until, cx.now()) {
                return Err(in_progress_error());
            }
            // Each attempt at a copy has different ids, so the rows of an earlier attempt are removed first.
            let is_other = !is_own && row.workspace_id != verified.header.workspace_id;
            if row.holder == REMOVAL_HOLDER || is_other {
                return remove_staged_rows(cx, &import_id, row.workspace_id).map(|()| None);
            }
            // If an operator began the import, the caller that completes the import is charged for it.
            let payer = row.charged_to.or(charge::charged_workspace(cx.caller()));
            if row.charged_to.is_none() {
                charge::check_import_limit(cx, payer)?;
            }
            (row.reached, row.holder, payer)
        }
    };
    let offset = u64::try_from(reached).unwrap_or(0);
    if verified.lines.is_end(offset) {
        return make_visible(cx, verified, (&import_id, held_by, charged_to)).map(Some);
    }
    let LineStep { lines, next_offset } = verified.lines.next_step(offset)?;
    let unknown = || Error::internal("a row of no table");
    for line in lines {
        match line {
            Line::Row(place, row) => {
                let records = cx.records().get(place).ok_or_else(unknown)?;
                insert_row(cx, verified.header.workspace_id, records, row)?;
            }
            Line::Event(payload, columns) => {
                insert_event(cx, verified.header.workspace_id, &payload, &columns)?;
            }
        }
    }
    let end = i64::try_from(next_offset).map_err(Error::internal)?;
    cx.execute(1, UPDATE_PROGRESS, &[&import_id, &end, &holder, &until, &held_by])?;
    Ok(None)
}

/// Returns whether another call is still working on an import.
fn is_in_progress(holder: Uuid, until: Time, now: Time) -> bool {
    holder != REMOVAL_HOLDER && until >= now
}

fn in_progress_error() -> Error {
    let detail = "the workspace is being imported, perhaps by a client that has lost its connection";
    Error::new(Code::Overloaded, detail).with("retry_after_secs", LEASE.as_secs())
}

const SELECT_IMPORT: &str = "
    select digest, mode, workspace_id, reached, holder, until, outcome, charged_to
    from imports where id = $1";

/// Matches a row only if no other call has continued or abandoned the import.
const UPDATE_PROGRESS: &str = "
    update imports set reached = $2, holder = $3, until = $4
    where id = $1 and holder = $5 and outcome is null";

/// Starts an import by inserting the row that stores the import's progress.
///
/// Returns `false` if the call removed rows of an earlier import instead. The caller must then call this
/// function again.
fn begin_staging(
    cx: &mut Write<'_>,
    verified: &VerifiedFile,
    (import_id, holder, until): (&str, Uuid, Time),
) -> Result<bool> {
    let workspace = verified.header.workspace_id;
    let now = cx.now();
    if let Some((staged, holder, until)) = cx.one::<(String, Uuid, Time)>(SELECT_STAGED, &[&workspace])? {
        if is_in_progress(holder, until, now) {
            return Err(in_progress_error());
        }
        return remove_staged_rows(cx, &staged, workspace).map(|()| false);
    }
    let state = workspaces::workspace_state(cx, workspace)?;
    if state.as_deref() == Some(workspaces::LIVE) {
        return Err(Error::new(Code::WorkspaceExists, "the instance has the workspace")
            .with("workspace_id", workspace));
    }
    if let Some((at,)) = cx.one::<(Time,)>(SELECT_ERASED, &[&workspace])? {
        if !charge::is_operator(cx.caller()) {
            let detail = "the workspace was erased here; restoring it needs the capability operator:global";
            return Err(Error::forbidden(detail));
        }
        // After that time the servers' caches of the workspace have expired.
        let until = at.shifted(i64::try_from(RESTORE_DELAY.as_micros()).unwrap_or(i64::MAX));
        if until > now || state.is_some() {
            return Err(Error::new(Code::Overloaded, "the workspace was erased a moment ago")
                .with("retry_after_secs", RESTORE_DELAY.as_secs()));
        }
    }
    let mode = verified.mode.name();
    let payer = charge::charged_workspace(cx.caller());
    charge::check_import_limit(cx, payer)?;
    cx.execute(
        1,
        INSERT_IMPORT,
        &[&import_id, &verified.digest, &mode, &workspace, &0_i64, &holder, &until, &payer],
    )?;
    Ok(true)
}

const SELECT_STAGED: &str =
    "select id, holder, until from imports where workspace_id = $1 and outcome is null limit 1";

const SELECT_ERASED: &str = "select at from erased where workspace_id = $1";

const INSERT_IMPORT: &str = "
    insert into imports (id, digest, mode, workspace_id, reached, holder, until, charged_to)
    values ($1, $2, $3, $4, $5, $6, $7, $8)";

/// Makes the workspace visible, in the same transaction that writes the events about its import.
fn make_visible(
    cx: &mut Write<'_>,
    verified: &VerifiedFile,
    (import_id, held_by, charged_to): (&str, Uuid, Option<WorkspaceId>),
) -> Result<ImportResult> {
    let header = &verified.header;
    let source = &verified.source;
    let mode = verified.mode;
    let workspace = header.workspace_id;
    for deferred in &verified.deferred {
        cx.execute(1, deferred.update_sql, &[&deferred.id, &deferred.value])?;
    }
    let hash =
        parse_hash(&header.head.content_hash).ok_or_else(|| Error::internal("a head without a hash"))?;
    cx.begin_imported_log(
        workspace,
        &ImportedHead {
            lsn: header.head.lsn,
            hash,
            at: header.head.at,
            audit_seq: header.audit_seq,
            floor: header.floor,
            // The event after the last copied event declares the older events that a copy lacks.
            pruned_at: verified
                .pruning_event
                .as_ref()
                .map_or(header.pruned_at, |_| header.head.lsn.saturating_add(1)),
            words_floor: header.words_floor,
            epoch: cx.now().micros(),
        },
    )?;
    let handle = workspaces::handle_if_free(cx, verified.handle.as_deref())?;
    let imported = WorkspaceImported {
        workspace_id: workspace,
        mode: mode.name().to_owned(),
        source_workspace_id: source.workspace_id,
        source_lsn: source.head.lsn,
        source_hash: source.head.content_hash.clone(),
        digest: crate::hash::format_hash(&verified.digest),
        signer: verified.signer.clone(),
        name: workspaces::workspace_name(cx, workspace)?,
        handle: handle.map(str::to_owned),
        from_older_version: is_older_schema(source.schema),
    };
    let lsn = cx.emit_in(WorkspaceId::INSTANCE, Subject::WORKSPACE, &imported)?.lsn;
    let head = match mode {
        ImportMode::Restore => header.head.clone(),
        ImportMode::New => cx.within(workspace, None, |cx| append_copy_events(cx, verified, &imported))?,
    };
    cx.audit_in(
        WorkspaceId::INSTANCE,
        "workspace.import",
        json!({"workspace_id": workspace, "mode": mode, "import_id": import_id}),
    )?;
    charge::record_import(cx, charged_to)?;
    workspaces::show(cx, workspace, (lsn, handle, charged_to))?;
    let admin_token =
        verified.admin_member.map(|member| admin_token::mint(cx, workspace, member)).transpose()?;
    let shown = workspaces::load_workspace(cx, workspace)?;
    let outcome = ImportResult {
        workspace_id: workspace,
        name: shown.name,
        handle: shown.handle,
        mode,
        created: true,
        events: verified.events,
        floor: header.floor,
        head_lsn: head.lsn,
        head_hash: head.content_hash,
        source: ImportSource {
            workspace_id: source.workspace_id,
            head_lsn: source.head.lsn,
            head_hash: source.head.content_hash.clone(),
        },
        admin_token: None,
    };
    let kept: Value = serde_json::to_value(&outcome).map_err(Error::internal)?;
    cx.execute(1, FINISH_IMPORT, &[&import_id, &kept.to_string(), &held_by])?;
    Ok(ImportResult { admin_token, ..outcome })
}

/// Appends the last events of a copy's log, which record the log's start and source.
///
/// The events are not attributed to any member.
fn append_copy_events(
    cx: &mut Write<'_>,
    verified: &VerifiedFile,
    imported: &WorkspaceImported,
) -> Result<ExportHead> {
    if let Some(pruning_event) = &verified.pruning_event {
        cx.emit(Subject::WORKSPACE, pruning_event)?;
    }
    let last = cx.emit(Subject::WORKSPACE, imported)?;
    Ok(ExportHead { lsn: last.lsn, content_hash: last.content_hash(), at: last.at })
}

const FINISH_IMPORT: &str =
    "update imports set outcome = $2 where id = $1 and holder = $3 and outcome is null";
