//! Implements `svc init`, which sets up a service.

use clap::Args;
use serde::Serialize;
use svc_core::Result;
use svc_core::config::board_link;
use svc_core::setup::{self, Established, Variables};

use super::DataFolder;
use crate::output::Printer;

/// Set up a service.
///
/// Creates the data folder, the keys, the database and the first workspace, with an administrator, an agent,
/// and a token for each of these two members. The tokens are shown only once; the administrator's token is
/// also shown as a link to the board that signs a browser in. If DATABASE_URL is set, the data is stored in
/// that PostgreSQL database, and the URL is not stored. A second set-up of a folder or database fails and
/// changes nothing; an interrupted set-up can be repeated.
#[derive(Args)]
pub struct Init {
    #[command(flatten)]
    folder: DataFolder,
    /// Name of the first workspace.
    #[arg(long, default_value = "Workspace")]
    name: String,
    /// Handle of the administrator of the first workspace.
    #[arg(long, value_name = "HANDLE", default_value = "admin")]
    admin: String,
}

#[derive(Serialize)]
struct InitSummary<'a> {
    data_dir: String,
    /// Link to the board that signs the administrator in.
    board: &'a str,
    #[serde(flatten)]
    established: &'a Established,
}

/// Runs `svc init`: sets up the data folder and the database, and prints the first tokens.
pub fn run(command: &Init, variables: &Variables, output: &Printer) -> Result<()> {
    let data = &command.folder.data;
    let (config, service, made) = setup::init(variables, data, &command.name, &command.admin)?;
    drop(service);
    let data_dir = std::path::absolute(data).unwrap_or_else(|_| data.clone()).display().to_string();
    let board = board_link(config.public_url.as_ref(), config.listen_addr, &made.token.secret);
    let text = format!(
        "Set up in {data_dir}.\n\n\
         workspace  {} ({})\n\
         admin      {} ({})\n\
         token      {}\n\
         board      {board}\n\
         agent      {} ({})\n\
         token      {}\n\n\
         The tokens will not be shown again. Keep a copy of {data_dir}/keys: without content.kek no message \
         can be read.\n\
         Serve with `svc-http --data {data_dir}`, or serve a single agent with `SVC_TOKEN=... svc mcp-stdio \
         --data {data_dir}`.",
        made.workspace.name,
        made.workspace.id,
        made.admin.handle,
        made.admin.id,
        made.token.secret,
        made.agent.handle,
        made.agent.id,
        made.agent_token.secret,
    );
    let lost = || {
        format!(
            "{data_dir} is set up, but the tokens could not be shown, so nobody has seen them: mint others \
             with `svc token mint --as-instance --member {} --data {data_dir}`, and likewise for {}",
            made.admin.handle, made.agent.handle
        )
    };
    output.print_secret_result(
        &InitSummary { data_dir: data_dir.clone(), board: &board, established: &made },
        &text,
        lost,
    )
}
