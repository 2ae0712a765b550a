//! Formats the output of `--dev`: a link to the board, the new tokens and a configuration for MCP clients.
//! The tokens are shown only once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use svc_core::config::{PublicUrl, board_link, reachable};
use svc_core::setup::Established;
use svc_mcp_stdio::profiles::Profile;

/// Name of the first workspace.
pub(crate) const FIRST_WORKSPACE_NAME: &str = "Workspace";
/// Handle of the administrator of the first workspace.
pub(crate) const FIRST_ADMIN_HANDLE: &str = "admin";

/// Placeholder for a token that can no longer be shown. MCP clients replace the placeholder with the value of
/// the environment variable `SVC_TOKEN`.
const TOKEN_PLACEHOLDER: &str = "${SVC_TOKEN}";

/// Returns the text that `--dev` prints after the line with the server's address.
///
/// The configuration for MCP clients refers to the `inherited` variables by name and does not contain their
/// values.
pub(crate) fn greeting(
    data: &Path,
    (address, public): (SocketAddr, Option<&PublicUrl>),
    made: Option<&Established>,
    inherited: &[&str],
) -> String {
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned()).display().to_string();
    let tokens = match made {
        Some(made) => format!(
            "board {}\n\
             set up in {data}; the link and the tokens will not be shown again\n\
             workspace {}\n\
             token of {} (administrator): {}\n\
             token of {} (agent): {}\n",
            board_link(public, address, &made.token.secret),
            made.workspace.id,
            made.admin.handle,
            made.token.secret,
            made.agent.handle,
            made.agent_token.secret,
        ),
        None => format!(
            "board {}\n\
             {data} is already set up; for a link that signs in run `svc token mint --as-instance --link \
             --data {data} --member {FIRST_ADMIN_HANDLE}`; for another token of the agent, the same with \
             --member worker and without --link\n",
            board_link(public, address, "").trim_end_matches('#'),
        ),
    };
    let token = made.map_or(TOKEN_PLACEHOLDER, |made| &made.agent_token.secret);
    let configuration = mcp_configuration(&svc_command(), &data, address, token, inherited);
    format!(
        "{tokens}MCP client configuration, by command or by URL:\n{}",
        format_configuration(&configuration)
    )
}

/// Formats the configuration as JSON, with one line for each server entry.
fn format_configuration(configuration: &Value) -> String {
    let ways = configuration.as_object().into_iter().flatten();
    let lines: Vec<String> = ways.map(|(name, way)| format!("  {}: {way}", json!(name))).collect();
    format!("{{\"mcpServers\": {{\n{}\n}}}}\n", lines.join(",\n"))
}

/// Returns the MCP configuration with two alternative entries: `svc` (a command) and `svc-http` (a URL).
fn mcp_configuration(
    command: &str,
    data: &str,
    address: SocketAddr,
    token: &str,
    inherited: &[&str],
) -> Value {
    // MCP clients replace each `${NAME}` with the value of that variable in their own environment.
    let inherited = inherited.iter().map(|name| ((*name).to_owned(), format!("${{{name}}}")));
    let env: BTreeMap<String, String> =
        std::iter::once(("SVC_TOKEN".to_owned(), token.to_owned())).chain(inherited).collect();
    json!({
        "svc": {
            "command": command,
            "args": ["mcp-stdio", "--data", data, "--toolsets", Profile::Worker.name()],
            "env": env,
        },
        "svc-http": {
            "type": "http",
            "url": format!("http://{}/mcp/{}", reachable(address), Profile::Worker.name()),
            "headers": {"Authorization": format!("Bearer {token}")},
        },
    })
}

/// Returns the path of the program `svc` in the folder of this program, or `svc` if that file does not exist.
fn svc_command() -> String {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("svc"));
    let beside = beside.filter(|path| path.is_file());
    beside.map_or_else(|| "svc".to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_names_both_ways() {
        let made = mcp_configuration("svc", "/d", "0.0.0.0:80".parse().unwrap(), "svc_1", &["DATABASE_URL"]);
        let made: Value = serde_json::from_str(&format_configuration(&made)).unwrap();
        assert_eq!(made.pointer("/mcpServers/svc/env/SVC_TOKEN").unwrap(), "svc_1");
        assert_eq!(made.pointer("/mcpServers/svc/env/DATABASE_URL").unwrap(), "${DATABASE_URL}");
        assert_eq!(made.pointer("/mcpServers/svc-http/url").unwrap(), "http://127.0.0.1:80/mcp/worker");
        assert_eq!(made.pointer("/mcpServers/svc-http/headers/Authorization").unwrap(), "Bearer svc_1");
    }

    #[test]
    fn a_later_start_shows_no_token() {
        let text = greeting(Path::new("/d"), ("127.0.0.1:80".parse().unwrap(), None), None, &[]);
        assert!(text.contains("svc token mint") && text.contains(TOKEN_PLACEHOLDER), "{text}");
        assert!(text.starts_with("board http://127.0.0.1:80/ui/\n"), "{text}");
    }
}
