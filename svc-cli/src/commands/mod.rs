//! The commands, one a file: its arguments, whose comments are the help, and what it does.

pub mod contract;
pub mod init;
pub mod mcp_stdio;
pub mod token;
pub mod verify;

use std::path::PathBuf;

use clap::Args;
use secrecy::SecretString;
use svc_core::config::Config;
use svc_core::data_dir;
use svc_core::setup::Variables;
use svc_core::{Code, Error, Result};

/// Which data folder a command is about.
#[derive(Args)]
pub struct Folder {
    /// The data folder.
    #[arg(long, value_name = "DIR", default_value = data_dir::DEFAULT)]
    pub data: PathBuf,
}

impl Folder {
    /// The configuration that the folder and the variables give.
    pub fn config(&self, variables: &Variables) -> Result<Config> {
        Config::read(variables.iter().cloned(), &self.data)
    }
}

/// The token that the command acts as.
fn credential(config: &Config) -> Result<SecretString> {
    config.token.clone().ok_or_else(|| {
        Error::new(
            Code::Unauthenticated,
            "set SVC_TOKEN, or SVC_TOKEN_FILE to a file with the token to act as",
        )
    })
}
