//! The Model Context Protocol against independent programs: the conformance suite, and clients.
//!
//! The suite calls fixtures behind the layer and the transports of the service. Clients call the built
//! programs, over HTTP and over pipes, and all take the same steps: each lists the tools first, since it then
//! checks results against their schemas; it calls, waits, abandons a wait, closes, and is refused in every
//! possible way. `SVC_TEST_WAIT_SECS` is the time of its wait.

use std::io::{BufRead as _, BufReader, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::database::skipped;
use svc_tests::site::{Server, Site};
use svc_tests::text;

use super::outside::{StoppedOnDrop, command, program};

/// The variable with the packages of npm, and the Node.js that runs them.
const SCRIPTS: &str = "SVC_TEST_JS";
/// The variable with the Python that has the second generation of the package `mcp`.
const PYTHON: &str = "SVC_TEST_PYTHON";
/// The variable with the Python that has the first generation.
const PYTHON_FIRST: &str = "SVC_TEST_PYTHON_MCP1";

/// The variable with the seconds that each client waits; up to 330, which clients and proxies must support.
const WAIT_SECS: &str = "SVC_TEST_WAIT_SECS";

/// The scenarios that fail in revision 2025-11-25: a request by the server needs a session, which the service
/// has only in revision 2024-11-05.
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

/// Returns the scenarios that fail in a revision, of those that count for it.
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
    let mut server = StoppedOnDrop(serve.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let address = lines.next().unwrap().unwrap();
    let Some(newest) = failing(&address, "2026-07-28") else { return };
    assert_eq!(newest, Vec::<String>::new());
    assert_eq!(failing(&address, "2025-11-25").unwrap(), NEEDS_SESSIONS);
}

/// A server with requests that can be refused.
struct RefusalServer {
    site: Site,
    server: Server,
    /// A thread that is claimed and has 900 KB of messages, and one that cannot be claimed because of its
    /// footprint.
    held: String,
    wanted: String,
}

/// The transport of a client.
#[derive(Clone, Copy, PartialEq)]
enum ClientTransport {
    Http(&'static str),
    Pipe,
}

const WAYS: [ClientTransport; 2] = [ClientTransport::Http("/mcp"), ClientTransport::Pipe];

impl RefusalServer {
    fn make() -> Self {
        let site = Site::found(Engine::Sqlite);
        // A debug build takes longer to read a thread of 900 KB than the default permits.
        let settings = site.path().join("svc.env");
        let found = std::fs::read_to_string(&settings).unwrap();
        std::fs::write(&settings, format!("{found}SVC_READ_BUDGET_MS=30000\n")).unwrap();
        let server = site.serve(&[]);
        let admin = server.caller(&site.founders.admin);
        let channels = format!("/workspaces/{}/channels", site.founders.workspace_id);
        let threads =
            format!("/channels/{}/threads", text(&admin.post(&channels, json!({"name": "work"}))["id"]));
        let footprint =
            json!({"repo": "acme/app", "mode": "exclusive", "items": [{"kind": "lane", "value": "docs"}]});
        let [held, wanted] = ["held", "wanted"]
            .map(|title| text(&admin.post(&threads, json!({"title": title, "footprint": footprint}))["id"]));
        admin.post(&format!("/threads/{held}/claim"), json!({"lease_secs": 3600}));
        let long = "It goes on \u{1f600} and \"on\".\n".repeat(3_465);
        for _ in 0..10 {
            admin.post(&format!("/threads/{held}/messages"), json!({"body": long}));
        }
        Self { site, server, held, wanted }
    }

    /// Returns the steps of a client.
    fn steps(&self) -> Value {
        let founders = &self.site.founders;
        let tokens = format!("/workspaces/{}/members/{}/tokens", founders.workspace_id, founders.admin_id);
        let minted = json!({"capabilities": ["workspace:read", "token:admin"]});
        let doomed = self.server.caller(&founders.admin).post(&tokens, minted);
        let wait_secs = std::env::var(WAIT_SECS).map_or(5, |secs| secs.parse().unwrap());
        let nobody = "00000000-0000-7000-8000-000000000000";
        json!({
            "prompt": ["review_thread", {"thread_id": self.held}],
            "calls": [
                ["whoami", "whoami", {}],
                ["missing", "get_thread", {"thread_id": nobody}],
                ["arguments", "get_thread", {"thread_id": 7, "limit": "x"}],
                ["capability", "revoke_token", {"token_id": nobody}],
                ["conflict", "claim_thread", {"thread_id": self.wanted}],
                ["unknown", "no_such_tool", {}],
                ["empty", "claim_next_workspace_thread", {}],
                ["context", "get_thread_context", {"thread_id": self.held}],
                ["messages", "list_messages", {"thread_id": self.held}],
                ["all", "list_messages", {"thread_id": self.held, "max_bytes": 1_048_576}],
            ],
            "wait_secs": wait_secs,
            // Progress comes each second at first, then every four seconds.
            "timeout_secs": if wait_secs > 8 { 8 } else { 2 },
            "doomed": {"id": doomed["id"], "secret": doomed["secret"]},
        })
    }

    /// Starts a client with these steps.
    fn start(&self, mut client: Command, kind: &str, way: ClientTransport, steps: Value) -> RunningClient {
        client.arg(kind).env("SVC_TOKEN", &self.site.founders.agent);
        let who = match way {
            ClientTransport::Http(path) => {
                client.arg(format!("http://{}{path}", self.server.address()));
                format!("{kind} at {path}")
            }
            ClientTransport::Pipe => {
                client.arg(program("svc")).arg(self.site.path());
                format!("{kind} over a pipe")
            }
        };
        let mut input = tempfile::tempfile().unwrap();
        serde_json::to_writer(&input, &steps).unwrap();
        input.rewind().unwrap();
        let child = client.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        RunningClient { who, way, steps, child }
    }
}

/// A running client.
struct RunningClient {
    who: String,
    way: ClientTransport,
    steps: Value,
    child: Child,
}

impl RunningClient {
    /// Checks that the client received each refusal, and lost nothing by abandoning a wait.
    ///
    /// Its steps do not include actions that its kind cannot do.
    fn check(self) {
        let Self { who, way, steps, child } = self;
        let output = child.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        let log = String::from_utf8_lossy(&output.stderr);
        let last = out.lines().last().unwrap_or_default();
        let outcomes: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{who}: {out}\n{log}"));
        assert!(output.status.success(), "{who}: it closes without an exception: {log}");
        assert!(!log.contains("unknown format"), "{who}: it knows all that schemas say: {log}");
        let asked = steps["calls"].as_array().unwrap().iter().map(|call| call[0].as_str().unwrap());
        for name in asked.chain(steps.get("prompt").map(|_| "prompt")) {
            assert!(outcomes.get(name).is_some(), "{who}: {name}");
        }
        check(&who, &outcomes);
        for name in ["revoked", "dead"] {
            let told = format!("{} {}", outcomes[name]["thrown"], outcomes[name]["code"]);
            let said =
                if way == ClientTransport::Pipe && name == "dead" { format!("{told} {log}") } else { told };
            // Some keep only the status of an answer, and one does not show the output of a program that ends
            // at once.
            let words = ["was revoked", "401", "Auth required", "closed during the server/discover probe"];
            let is_told = words.iter().any(|words| said.contains(words));
            assert!(is_told, "{who}: {name}: {said}");
        }
    }
}

/// Checks the outcomes of a client's steps.
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
        if outcomes.get(name).is_none() {
            continue;
        }
        let refusal = result(name);
        let text = refusal["content"][0]["text"].as_str().unwrap();
        assert_eq!(refusal["isError"], true, "{who}: {name}: {refusal}");
        assert!(text.contains(said), "{who}: {name}: {text}");
    }
    for (name, code, said) in [("conflict", -32009, "wait_for_ready"), ("unknown", -32602, "no_such_tool")] {
        let Some(error) = outcomes.get(name) else { continue };
        assert_eq!(error["code"], code, "{who}: {name}: {error}");
        assert!(error["thrown"].as_str().unwrap().contains(said), "{who}: {name}: {error}");
    }
    if outcomes.get("prompt").is_some() {
        let text = result("prompt")["messages"][0]["content"]["text"].as_str().unwrap();
        assert!(text.contains("submit_review"), "{who}: {text}");
    }
    // Of 900 KB, a client gets its default limit, and all of it if it requests that.
    let context = &result("context")["structuredContent"];
    assert_eq!(
        (&context["messages_omitted"], &context["messages"][0]["truncated"]),
        (&json!(9), &json!(true))
    );
    let page = &result("messages")["structuredContent"];
    assert!(page["next_cursor"].is_string() && page["items"][0]["next_offset"].is_number(), "{who}: {page}");
    let all = &result("all")["structuredContent"];
    assert_eq!(all["items"].as_array().map(Vec::len), Some(10), "{who}");
    assert!(context.to_string().len() <= 60_000 && all.to_string().len() > 900_000, "{who}");
    // An event with all of it twice would be longer than some clients accept.
    assert!(result("all").to_string().len() <= 1_048_576, "{who}");
    assert!(result("empty")["content"][1]["text"].as_str().unwrap().contains("wait_for_ready"), "{who}");
    assert_eq!(
        result("wait")["structuredContent"],
        json!({"timed_out": true}),
        "{who}: it outlives a timeout"
    );
    assert!(outcomes["wait"]["heard"].as_i64().unwrap() > 1, "{who}: it hears of progress");
    assert!(outcomes["left"]["thrown"].is_string(), "{who}: {}", outcomes["left"]);
}

#[test]
fn clients_of_npm_read_every_refusal_over_http_and_pipes() {
    let stand = RefusalServer::make();
    let mut started = Vec::new();
    for kind in ["sdk", "client", "client-modern"] {
        for way in WAYS {
            let Some(client) = node("mcp_client.mjs") else { return };
            started.push(stand.start(client, kind, way, stand.steps()));
        }
    }
    started.into_iter().for_each(RunningClient::check);
}

/// Returns a command of the script for packages of PyPI, if the Python of `variable` has them.
fn python(variable: &str) -> Option<Command> {
    let Some(python) = std::env::var_os(variable) else {
        skipped("outside clients", variable);
        return None;
    };
    let mut client = command(python);
    client.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("py/mcp_client.py"));
    Some(client)
}

#[test]
fn clients_of_pypi_read_every_refusal_over_http_and_pipes() {
    let stand = RefusalServer::make();
    let mut started = Vec::new();
    let sse = ClientTransport::Http("/mcp/streamable");
    for (variable, kind, ways) in [
        (PYTHON_FIRST, "v1", &WAYS[..]),
        (PYTHON_FIRST, "sse", &[sse]),
        (PYTHON_FIRST, "langchain", &WAYS),
        (PYTHON, "v2", &WAYS),
        (PYTHON, "v2-legacy", &WAYS),
    ] {
        for way in ways {
            let Some(client) = python(variable) else { return };
            let mut steps = stand.steps();
            if kind == "langchain" {
                // It calls only listed tools, and does not accept a prompt with a resource in it.
                steps.as_object_mut().unwrap().remove("prompt");
                let is_listed = |call: &Value| call[0] != "capability" && call[0] != "unknown";
                steps["calls"].as_array_mut().unwrap().retain(is_listed);
            }
            started.push(stand.start(client, kind, *way, steps));
        }
    }
    started.into_iter().for_each(RunningClient::check);
}

#[test]
fn the_client_of_rmcp_reads_every_refusal_over_http_and_pipes() {
    let stand = RefusalServer::make();
    let mut started = Vec::new();
    for kind in ["rmcp", "rmcp-legacy"] {
        for way in WAYS {
            started.push(stand.start(command(program("mcp-client")), kind, way, stand.steps()));
        }
    }
    started.into_iter().for_each(RunningClient::check);
}

/// The output of the Inspector's command line, as a developer with a server would see it.
#[test]
fn the_inspector_finds_no_error_and_shows_every_refusal() {
    const INSPECTOR: &str = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js";
    let stand = RefusalServer::make();
    let home = tempfile::tempdir().unwrap();
    let founders = &stand.site.founders;
    let nobody = "thread_id=00000000-0000-7000-8000-000000000000";
    let [held, wanted] = [&stand.held, &stand.wanted].map(|id| format!("thread_id={id}"));
    // A result with `isError` ends the program with 5, an error of the protocol with 1.
    for (token, arguments, code, said) in [
        (&founders.admin, &["tools/list", "--strict"][..], 0, "0 errors"),
        (&founders.agent, &["tools/list", "--strict", "--protocol-era", "modern"], 0, "0 errors"),
        (&founders.agent, &["tools/call", "--tool-name", "whoami"], 0, "worker"),
        (&founders.agent, &["tools/call", "--tool-name", "get_thread", "--tool-arg", nobody], 5, "not-found"),
        (
            &founders.agent,
            &["tools/call", "--tool-name", "claim_thread", "--tool-arg", &wanted],
            1,
            "wait_for_ready",
        ),
        (
            &founders.agent,
            &["tools/call", "--tool-name", "get_thread_context", "--tool-arg", &held],
            0,
            "messages_omitted",
        ),
        (&founders.agent, &["resources/list"], 0, "svc://workspaces/"),
        (&founders.agent, &["prompts/list"], 0, "start_work"),
    ] {
        for way in WAYS {
            let Some(mut inspector) = node(INSPECTOR) else { return };
            inspector.env("HOME", home.path()).arg("--cli");
            match way {
                ClientTransport::Http(path) => {
                    inspector.arg(format!("http://{}{path}", stand.server.address()));
                    inspector.args([
                        "--transport",
                        "http",
                        "--header",
                        &format!("Authorization: Bearer {token}"),
                    ]);
                }
                ClientTransport::Pipe => {
                    inspector.arg(program("svc")).args(["mcp-stdio", "--data"]).arg(stand.site.path());
                    inspector.args(["-e", &format!("SVC_TOKEN={token}")]);
                }
            }
            let output = inspector.arg("--method").args(arguments).output().unwrap();
            let told =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told:?}");
            assert!(told.concat().contains(said), "{arguments:?}: {told:?}");
        }
    }
}
