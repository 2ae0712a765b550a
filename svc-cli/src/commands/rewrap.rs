//! Implements `svc rewrap`, which rewraps data under the current key.

use std::fmt::Write as _;

use clap::Args;
use svc_core::setup::{self, Variables};
use svc_core::{Error, Result};

use super::DataFolder;
use crate::output::Printer;

/// Rewrap the data of retired keys under the current key.
///
/// After you have set a new key as SVC_CONTENT_KEK and the previous key as SVC_CONTENT_KEK_PREVIOUS, all data
/// is readable, but older data still needs the previous key. This command rewraps that data under the new key
/// while servers run, and reports when the previous key may be removed. The command can be stopped and run
/// again at any time. It needs the keys, but no token.
#[derive(Args)]
pub struct Rewrap {
    #[command(flatten)]
    folder: DataFolder,
}

/// Runs `svc rewrap`: rewraps data under the current key, and prints how much data each retired key still
/// wraps.
pub fn run(command: &Rewrap, variables: &Variables, output: &Printer) -> Result<()> {
    let config = command.folder.config(variables)?;
    let rewrap = setup::open(&config)?.rewrap()?;
    let mut text = format!("Moved to the key {}: {}.\n", rewrap.key_id, rewrap.moved);
    for key in &rewrap.unused {
        writeln!(
            text,
            "The key {key} no longer wraps any data. You may remove it from SVC_CONTENT_KEK_PREVIOUS of \
             every server, 24 hours after the last server used it as SVC_CONTENT_KEK. Earlier backups still \
             need it."
        )
        .map_err(Error::internal)?;
    }
    for (key, left) in &rewrap.left {
        writeln!(
            text,
            "The key {key} still wraps {left}: keep it. Another run moves the data that has changed during \
             this run. Data that cannot be unwrapped is not moved; the log lists it."
        )
        .map_err(Error::internal)?;
    }
    output.print_result(&rewrap, &text)
}
