//! The Model Context Protocol against what others have written: the conformance suite, and clients.
//!
//! The suite calls fixtures behind the layer and the transports of the service. Clients call the built
//! programs, over HTTP and over pipes: each lists the tools first, since it then checks what it receives
//! against their schemas.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use svc_tests::database::skipped;

use super::outside::{Home, Stopped, command, program};

/// Where the packages of npm are, and the Node.js that runs them.
const SCRIPTS: &str = "SVC_TEST_JS";

/// What fails in revision 2025-11-25: a request by the server needs a session, which the service has only in
/// revision 2024-11-05.
const NEEDS_SESSIONS: [&str; 4] = [
    "tools-call-sampling",
    "tools-call-elicitation",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
];

/// Returns a command of a package, if they are installed.
fn node(script: &str) -> Option<Command> {
    let Some(folder) = std::env::var_os(SCRIPTS).map(PathBuf::from) else {
        skipped("clients of npm", SCRIPTS);
        return None;
    };
    let mut node = command(folder.join("node"));
    node.current_dir(&folder).arg(script);
    Some(node)
}

/// The scenarios that fail in a revision, of those that count for it.
fn failing(address: &str, revision: &str) -> Option<Vec<String>> {
    const SUITE: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
    let mut suite = node(SUITE)?;
    let folder = tempfile::tempdir().unwrap();
    suite.args(["server", "--url", address, "--requirements", revision, "--timeout", "20000"]);
    let output = suite.arg("-o").arg(folder.path()).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let (run, not_scored) = out.split_once("Not scored for").unwrap_or((&out, ""));
    assert!(run.contains("Total:"), "{out}\n{}", String::from_utf8_lossy(&output.stderr));
    let name = |line: &str| {
        let failed = line.trim().strip_prefix('\u{2717}')?.trim();
        Some(failed.split([':', ' ']).next()?.to_owned())
    };
    let not_scored: Vec<String> = not_scored.lines().filter_map(name).collect();
    Some(run.lines().filter_map(name).filter(|name| !not_scored.contains(name)).collect())
}

#[test]
fn the_conformance_suite_finds_nothing_but_what_needs_sessions() {
    let mut serve = command(program("mcp-fixtures"));
    let mut server = Stopped(serve.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let address = lines.next().unwrap().unwrap();
    let Some(newest) = failing(&address, "2026-07-28") else { return };
    assert_eq!(newest, Vec::<String>::new());
    assert_eq!(failing(&address, "2025-11-25").unwrap(), NEEDS_SESSIONS);
}

/// What the calls of one client came to.
fn outcomes(home: &Home, kind: &str, server: &[&str]) -> Option<Value> {
    let mut client = node("mcp_client.mjs")?;
    client.arg(kind).args(server).env("SVC_TOKEN", home.secret("agent_token"));
    let output = client.output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let last = out.lines().last().unwrap_or_default();
    Some(serde_json::from_str(last).unwrap_or_else(|_| panic!("{kind} {server:?}: {out}\n{error}")))
}

/// Checks that a client was told of each refusal by a text, and lost nothing by leaving a wait.
fn check(who: &str, outcomes: &Value) {
    let result = |name: &str| {
        let result = &outcomes[name]["result"];
        assert!(!result.is_null(), "{who}: {name}: {}", outcomes[name]);
        result
    };
    let listed = result("list").as_array().unwrap();
    assert!(listed.contains(&json!("whoami")) && listed.len() > 100, "{who}: one page has all of them");
    assert!(!result("prompts").as_array().unwrap().is_empty(), "{who}");
    assert!(result("read")["contents"][0]["text"].is_string(), "{who}: {}", result("read"));
    for name in ["whoami", "afterwards"] {
        assert_eq!(result(name)["structuredContent"]["handle"], "worker", "{who}: {name}");
    }
    for (name, said) in [("missing", "not-found"), ("arguments", "thread_id"), ("capability", "token:admin")]
    {
        let refusal = result(name);
        let text = refusal["content"][0]["text"].as_str().unwrap();
        assert_eq!(refusal["isError"], true, "{who}: {name}: {refusal}");
        assert!(text.contains(said), "{who}: {name}: {text}");
    }
    assert_eq!(outcomes["unknown"]["code"], -32602, "{who}: {}", outcomes["unknown"]);
    assert!(result("empty")["content"][1]["text"].as_str().unwrap().contains("wait_for_ready"), "{who}");
    assert_eq!(
        result("wait")["structuredContent"],
        json!({"timed_out": true}),
        "{who}: it outlives a timeout"
    );
    assert!(outcomes["left"]["thrown"].is_string(), "{who}: {}", outcomes["left"]);
}

#[test]
fn clients_of_npm_read_every_refusal_over_http_and_pipes() {
    let home = Home::make();
    let (_server, address) = home.served();
    let (svc, data) = (program("svc"), home.data());
    for kind in ["sdk", "client", "client-modern"] {
        let address = format!("{address}/mcp");
        let Some(over_http) = outcomes(&home, kind, &[&address]) else { return };
        check(&format!("{kind} over HTTP"), &over_http);
        let pipe = [svc.to_str().unwrap(), data.to_str().unwrap()];
        check(&format!("{kind} over a pipe"), &outcomes(&home, kind, &pipe).unwrap());
    }
}
