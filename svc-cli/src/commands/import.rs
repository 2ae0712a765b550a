//! Implements `svc import`, which imports an exported workspace.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use svc_core::api::{ImportMode, ImportWorkspace};
use svc_core::config::Config;
use svc_core::setup::Variables;
use svc_core::signed_note::known_keys;
use svc_core::spool::{self, SpoolFolder};
use svc_core::{Code, Error, Result, verify_export};

use super::{CommandCaller, DataFolder};
use crate::output::{Printer, progress_bar, spinner};

/// Import a file that svc export has written.
///
/// The file must be signed by this installation or by a key of SVC_EXPORT_VERIFY_KEYS. The workspace becomes
/// visible only when everything is written. An interrupted command can be repeated: the command continues the
/// import, or prints the result if the import was completed. Acts as the member of the token in SVC_TOKEN,
/// which must have the capability token:admin, or with --as-instance with the rights of the machine's
/// administrator.
#[derive(Args)]
pub struct Import {
    #[command(flatten)]
    folder: DataFolder,
    /// The export file to import.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Treatment of the ids in the file.
    #[arg(long, value_name = "MODE")]
    mode: IdTreatment,
    /// Handle of the member that the printed administrator token is for.
    #[arg(long, value_name = "HANDLE")]
    admin: Option<String>,
    /// Import the file even if it was imported before.
    #[arg(long)]
    again: bool,
    /// Act as the instance, without a token. The audit trail records this.
    #[arg(long)]
    as_instance: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum IdTreatment {
    /// Assign a new id to each object, so that the import creates a separate workspace.
    New,
    /// Keep the ids of all objects.
    Restore,
}

/// Maximum time to wait for another import of the same file, which is running or was interrupted.
const OTHER_IMPORT_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two attempts while another import of the same file is running.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Runs `svc import`: verifies an export file and imports the workspace in it.
pub fn run(command: &Import, variables: &Variables, output: &Printer) -> Result<()> {
    let config = command.folder.config(variables)?;
    let caller = match command.as_instance {
        true => CommandCaller::open_as_whole_instance(&config)?,
        false => CommandCaller::open_as_member(&config)?,
    };
    let unreadable = |error| {
        Error::malformed(format!("the export {} cannot be read", command.file.display())).caused_by(error)
    };
    let file = File::open(&command.file).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let mut from = progress_bar("reading", bytes).wrap_read(file);
    let spools = SpoolFolder::new(spool::default_spool_folder(), config.spool_limits);
    let mut spool = spools.create(None)?;
    spool.copy(&mut from, unreadable)?;
    let spooled = spool.finish()?;
    // The id of the import is derived from the signed content, so that the same file is imported only once in
    // each mode.
    let keys = Config::read_export_keys(variables.iter().cloned(), &command.folder.data)?;
    let report =
        verify_export(progress_bar("verifying", bytes).wrap_read(spooled.reader(0)), &known_keys(&keys))?;
    let mode = match command.mode {
        IdTreatment::New => ImportMode::New,
        IdTreatment::Restore => ImportMode::Restore,
    };
    let mut request = ImportWorkspace::new(mode, svc_core::api::File::from(spooled));
    if let Some(admin) = &command.admin {
        request = request.admin_handle(admin);
    }
    if !command.again {
        request = request.import_id(format!("{mode} {}", report.digest()));
    }
    let imported = retry_while_busy(|| caller.call(&request))?;
    let mut text = format!(
        "{} {} ({}): {} events, head {}:{}.\n",
        if imported.created { "Imported" } else { "Was imported before:" },
        imported.name,
        imported.workspace_id,
        imported.events,
        imported.head_lsn,
        imported.head_hash
    );
    let Some(token) = &imported.admin_token else { return output.print_result(&imported, &text) };
    text.push_str(&format!("Token: {}\n", token.secret));
    output.print_secret_result(&imported, &text, || {
        "the workspace was imported, but its administrator's token could not be shown; mint another one with \
         `svc token mint --as-instance`"
            .to_owned()
    })
}

/// Runs an import, and retries while another import of the same file is running.
fn retry_while_busy<T>(import: impl Fn() -> Result<T>) -> Result<T> {
    let began = Instant::now();
    let importing = spinner("importing");
    loop {
        match import() {
            Err(error) if error.code() == Code::Overloaded && began.elapsed() < OTHER_IMPORT_TIMEOUT => {
                importing.set_message("waiting for another import");
                std::thread::park_timeout(RETRY_INTERVAL);
            }
            imported => return imported,
        }
    }
}
