//! Implements `svc export`, which writes a workspace to a signed file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use svc_core::api::{ExportTexts, ExportWorkspace};
use svc_core::id::WorkspaceId;
use svc_core::setup::Variables;
use svc_core::spool::FileContent;
use svc_core::{Code, Error, Result};

use super::{CommandCaller, DataFolder};
use crate::output::{Printer, progress_bar, spinner};

/// Write a workspace to a signed file: its rows, and its whole log.
///
/// The file appears under its name once it is complete. It contains the keys of live messages, but no tokens
/// and no other secrets. Acts as the member of the token in SVC_TOKEN, which must have the capability
/// token:admin, or with --as-instance with the rights of the machine's administrator. Only with --as-instance
/// does the file contain the keys of direct messages that the member is not in. SVC_EXPORT_SIGNING_KEY signs
/// the file. The audit trail records the export.
#[derive(Args)]
pub struct Export {
    #[command(flatten)]
    folder: DataFolder,
    /// Id of the workspace. May be omitted if only one workspace is possible.
    #[arg(long, value_name = "ID")]
    workspace: Option<WorkspaceId>,
    /// The file to write. It must not exist yet.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Message content in the file: all live content, or no content, for a file that is evidence and cannot
    /// be imported.
    #[arg(long, value_name = "WHICH", default_value = "all")]
    words: ExportedContent,
    /// Act as the instance, without a token. The audit trail records this.
    #[arg(long)]
    as_instance: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ExportedContent {
    /// Include all content that is not withdrawn or purged.
    All,
    /// Include no content: the file is evidence that cannot be imported.
    None,
}

#[derive(Serialize)]
struct ExportSummary<'a> {
    workspace_id: WorkspaceId,
    file: &'a Path,
    /// Size of the file in bytes.
    bytes: u64,
}

/// Runs `svc export`: writes a workspace to a signed file.
pub fn run(command: &Export, variables: &Variables, output: &Printer) -> Result<()> {
    if command.output.exists() {
        return Err(Error::malformed(format!("{} exists already", command.output.display())));
    }
    let config = command.folder.config(variables)?;
    let caller = match command.as_instance {
        true => CommandCaller::open_as_instance(&config, command.workspace)?,
        false => CommandCaller::open_as_member(&config)?,
    };
    let workspace_id = caller.workspace(command.workspace)?;
    let words = match command.words {
        ExportedContent::All => ExportTexts::All,
        ExportedContent::None => ExportTexts::None,
    };
    let exporting = spinner("exporting");
    let content = caller.call(&ExportWorkspace::new().workspace_id(workspace_id).words(words))?;
    exporting.finish_and_clear();
    write_export_file(&content, &command.output)?;
    let file = command.output.as_path();
    let bytes = content.spooled.len();
    let text = format!("Wrote {} ({bytes} bytes).", file.display());
    output.print_result(&ExportSummary { workspace_id, file, bytes }, &text)
}

/// Writes an export to `path`, where the file appears only once it is complete and on the disk.
///
/// If an earlier command was killed, its partial file is overwritten.
fn write_export_file(content: &FileContent, path: &Path) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let partial = path.with_file_name(name);
    let failed = |error: io::Error| {
        let detail = format!("the file {} cannot be written", path.display());
        Error::new(Code::Configuration, detail).caused_by(error)
    };
    let mut file = open_partial_file(&partial).map_err(failed)?;
    let written = copy_content(content, &mut file).and_then(|()| {
        // Another command may have created the file since the first check.
        if path.exists() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        std::fs::rename(&partial, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    });
    if written.is_err() {
        // If the partial file cannot be removed either, the next command overwrites it.
        let _ = std::fs::remove_file(&partial);
    }
    written.map_err(failed)
}

/// Opens or creates the partial file, and locks the file for this process. Earlier content does not matter.
fn open_partial_file(partial: &Path) -> io::Result<File> {
    loop {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(partial)?;
        file.try_lock()?;
        // The previous holder of the lock may have renamed or removed the file.
        let here = std::fs::symlink_metadata(partial);
        let own = file.metadata()?;
        if here.is_ok_and(|here| (here.dev(), here.ino()) == (own.dev(), own.ino())) {
            return Ok(file);
        }
    }
}

fn copy_content(content: &FileContent, file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    let mut from = progress_bar("writing", content.spooled.len()).wrap_read(content.spooled.reader(0));
    io::copy(&mut from, file)?;
    file.flush()?;
    file.sync_all()
}
