//! The commands, one per file. The doc comments of their arguments are the help texts.

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

/// The data folder that a command works on.
#[derive(Args)]
pub struct Folder {
    /// The folder with the settings, the keys and, unless DATABASE_URL is set, the database.
    #[arg(long, value_name = "DIR", default_value = data_dir::DEFAULT)]
    pub data: PathBuf,
}

impl Folder {
    /// Reads the configuration from the variables and the folder.
    pub fn config(&self, variables: &Variables) -> Result<Config> {
        Config::read(variables.iter().cloned(), &self.data)
    }
}

/// Returns the token that the command acts as.
fn credential(config: &Config) -> Result<SecretString> {
    config.token.clone().ok_or_else(|| {
        Error::new(
            Code::Unauthenticated,
            "set SVC_TOKEN, or SVC_TOKEN_FILE to a file with the token to act as",
        )
    })
}
