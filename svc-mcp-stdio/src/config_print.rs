//! Prints the configuration with which an MCP client starts this server.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;

use clap::ValueEnum;
use serde_json::{Value, json};
use svc_core::{Error, Result, operation_table};

use crate::profiles::Profile;
use crate::tool_filter::{ToolChoice, ToolFilter};

/// An MCP client whose configuration can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClientProgram {
    /// Claude Code: `.mcp.json`
    Claude,
    /// Codex: `~/.codex/config.toml`
    Codex,
    /// Gemini CLI: `~/.gemini/settings.json`
    Gemini,
    /// Visual Studio Code: `.vscode/mcp.json`
    Vscode,
    /// Cursor: `.cursor/mcp.json`
    Cursor,
}

impl ClientProgram {
    /// Returns the configuration with which the client starts `program` on a data folder.
    ///
    /// The configuration does not contain the token: the client reads the token from its environment, or asks
    /// its user for the token. If `choice` selects no tools, the configuration selects the tools of a worker.
    fn configuration(self, program: &Path, data: &Path, choice: &ToolChoice, inherited: &[&str]) -> String {
        let takes_command = program.file_stem().is_none_or(|name| name != "svc-mcp-stdio");
        let command = takes_command.then(|| "mcp-stdio".to_owned());
        let arguments: Vec<String> = command.into_iter().chain(command_arguments(data, choice)).collect();
        let program = program.display().to_string();
        let server = |token: &str, reference: fn(&str) -> String| {
            let inherited = inherited.iter().map(|name| ((*name).to_owned(), reference(name)));
            let env: BTreeMap<String, String> =
                std::iter::once(("SVC_TOKEN".to_owned(), token.to_owned())).chain(inherited).collect();
            json!({"command": program, "args": arguments, "env": env})
        };
        let servers = |reference: fn(&str) -> String| {
            let server = server(&reference("SVC_TOKEN"), reference);
            json!({"mcpServers": {"svc": server}})
        };
        let value = match self {
            Self::Claude => servers(|name| format!("${{{name}}}")),
            Self::Gemini => servers(|name| format!("${name}")),
            Self::Cursor => servers(editor_reference),
            Self::Vscode => json!({
                "inputs": [{
                    "type": "promptString", "id": "svc-token", "description": "Token of svc",
                    "password": true,
                }],
                "servers": {"svc": with_stdio_type(server("${input:svc-token}", editor_reference))},
            }),
            Self::Codex => return to_toml(&program, &arguments, inherited),
        };
        format!("{value:#}\n")
    }
}

/// Environment variables that another process needs to use the same database and keys.
///
/// The other process reads variables that are not set in its environment from svc.env.
const SHARED_VARIABLES: [&str; 6] = [
    "DATABASE_URL",
    "DATABASE_URL_FILE",
    "SVC_CONTENT_KEK",
    "SVC_CONTENT_KEK_FILE",
    "SVC_CONTENT_KEK_PREVIOUS",
    "SVC_CONTENT_KEK_PREVIOUS_FILE",
];

/// Returns the names of the shared variables that are set in the environment of this process.
pub fn inherited_variables() -> Vec<&'static str> {
    SHARED_VARIABLES.into_iter().filter(|name| std::env::var_os(name).is_some()).collect()
}

fn editor_reference(name: &str) -> String {
    format!("${{env:{name}}}")
}

/// Prints the configuration with which an MCP client starts this program.
///
/// If this program is `svc`, the configuration also contains the subcommand `mcp-stdio`. The configuration
/// refers to the variables for the database and the keys that are set in this process, without their values.
/// Fails if `choice` contains an unknown name.
pub fn print_configuration(client: ClientProgram, data: &Path, choice: &ToolChoice) -> Result<()> {
    ToolFilter::chosen(&operation_table()?, choice).map_err(Error::malformed)?;
    let program = std::env::current_exe().map_err(Error::internal)?;
    let data = std::path::absolute(data).map_err(Error::internal)?;
    let text = client.configuration(&program, &data, choice, &inherited_variables());
    io::stdout().lock().write_all(text.as_bytes()).map_err(Error::internal)
}

fn with_stdio_type(mut server: Value) -> Value {
    if let Some(members) = server.as_object_mut() {
        members.insert("type".to_owned(), json!("stdio"));
    }
    server
}

fn command_arguments(data: &Path, choice: &ToolChoice) -> Vec<String> {
    let mut arguments = vec!["--data".to_owned(), data.display().to_string()];
    let has_chosen = choice.toolsets.is_some() || choice.tools.is_some();
    let toolsets = choice.toolsets.clone().or((!has_chosen).then(|| Profile::Worker.name().to_owned()));
    for (name, value) in [("--toolsets", toolsets), ("--tools", choice.tools.clone())] {
        arguments.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
    }
    if choice.reads_only {
        arguments.push("--read-only".to_owned());
    }
    arguments
}

/// Formats the configuration as TOML, whose basic strings allow every escape that JSON uses.
fn to_toml(program: &str, arguments: &[String], inherited: &[&str]) -> String {
    let command = json!(program);
    let arguments = json!(arguments);
    let variables: Vec<&str> = ["SVC_TOKEN"].iter().chain(inherited).copied().collect();
    let variables = json!(variables);
    format!("[mcp_servers.svc]\ncommand = {command}\nargs = {arguments}\nenv_vars = {variables}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_starts_the_server_without_the_token_in_it() {
        for client in ClientProgram::value_variants() {
            let program = Path::new("/bin/svc");
            let data = Path::new("/a \"b\"");
            let text = client.configuration(program, data, &ToolChoice::default(), &["DATABASE_URL"]);
            let server = match client {
                ClientProgram::Codex => parse_toml(&text),
                ClientProgram::Vscode => {
                    serde_json::from_str::<Value>(&text).unwrap()["servers"]["svc"].clone()
                }
                _ => serde_json::from_str::<Value>(&text).unwrap()["mcpServers"]["svc"].clone(),
            };
            assert_eq!(server["command"], "/bin/svc", "{client:?}");
            let arguments = json!(["mcp-stdio", "--data", "/a \"b\"", "--toolsets", "worker"]);
            assert_eq!(server["args"], arguments, "{client:?}");
            assert!(text.contains("SVC_TOKEN") && !text.contains("svc_"), "{text}");
            match client {
                ClientProgram::Codex => assert_eq!(server["env_vars"], json!(["SVC_TOKEN", "DATABASE_URL"])),
                _ => assert!(server["env"]["DATABASE_URL"].as_str().unwrap().contains("DATABASE_URL")),
            }
        }
    }

    /// Parses the printed TOML, a single table whose values are also valid JSON.
    fn parse_toml(text: &str) -> Value {
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("[mcp_servers.svc]"));
        let member = |line: &str| {
            let (name, value) = line.split_once(" = ").unwrap();
            (name.to_owned(), serde_json::from_str::<Value>(value).unwrap())
        };
        lines.map(member).collect::<serde_json::Map<_, _>>().into()
    }

    #[test]
    fn what_was_chosen_is_kept() {
        let choice = ToolChoice { toolsets: None, tools: Some("whoami".to_owned()), reads_only: true };
        assert_eq!(
            command_arguments(Path::new("d"), &choice),
            ["--data", "d", "--tools", "whoami", "--read-only"]
        );
    }
}
