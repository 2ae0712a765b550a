//! `svc rewrap`.

use std::fmt::Write as _;

use clap::Args;
use svc_core::setup::{self, Variables};
use svc_core::{Error, Result};

use super::DataFolder;
use crate::output::Printer;

/// Rewrap everything that retired keys wrap under the current key.
///
/// After you have set a new key as SVC_CONTENT_KEK and the previous one as SVC_CONTENT_KEK_PREVIOUS,
/// everything is readable, but data that the old key wraps still needs that key. This command rewraps the
/// data under the new key while servers run, and reports when the old key may be removed. It can be stopped
/// and run again at any time. It needs the keys, but no token.
#[derive(Args)]
pub struct Rewrap {
    #[command(flatten)]
    folder: DataFolder,
}

/// Runs `svc rewrap`: rewraps data under the current key, and prints how much each retired key still wraps.
pub fn run(command: &Rewrap, variables: &Variables, output: &Printer) -> Result<()> {
    let config = command.folder.config(variables)?;
    let rewrap = setup::open(&config)?.rewrap()?;
    let mut text = format!("Moved to the key {}: {}.\n", rewrap.key_id, rewrap.moved);
    for key in &rewrap.unused {
        writeln!(
            text,
            "The key {key} wraps nothing any more: it may be removed from SVC_CONTENT_KEK_PREVIOUS of every \
             server, 24 hours after none had it as SVC_CONTENT_KEK. Backups from before need it."
        )
        .map_err(Error::internal)?;
    }
    for (key, left) in &rewrap.left {
        writeln!(
            text,
            "The key {key} still wraps {left}: keep it. What has changed meanwhile is moved by another run; \
             what does not open is not, and the log names it."
        )
        .map_err(Error::internal)?;
    }
    output.show(&rewrap, &text)
}
