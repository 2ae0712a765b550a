//! Agents with an independent client, the Python package `mcp`, against the built programs.
//!
//! They work over a pipe and over HTTP, in the legacy handshake and in the revision without one. SCIM is
//! tested by the Python package `scim2-tester`.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use svc_tests::database::skipped;
use tempfile::TempDir;

/// The variable with the Python that has the outside clients.
const PYTHON: &str = "SVC_TEST_PYTHON";

/// Returns the path of a program that is built along with the tests.
pub(super) fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().and_then(Path::parent).unwrap().join(name);
    assert!(program.exists(), "{} is not built: cargo build --workspace --bins", program.display());
    program
}

/// Returns a command without our variables, because programs reject unknown ones.
pub(super) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("SVC_") || name == "DATABASE_URL") {
            command.env_remove(name);
        }
    }
    command
}

/// A data folder with an administrator and an agent in it.
struct AgentFolder {
    folder: TempDir,
    made: Value,
}

impl AgentFolder {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut init = command(program("svc"));
        init.args(["init", "--json", "--data"]).arg(folder.path().join("data"));
        let output = init.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { folder, made: serde_json::from_slice(&output.stdout).unwrap() }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn workspace(&self) -> &Value {
        &self.made["workspace"]["id"]
    }

    /// Returns the secret of the token called `token`.
    fn secret(&self, token: &str) -> &str {
        self.made[token]["secret"].as_str().unwrap()
    }

    /// Starts a server of the folder, and returns it with its address.
    fn served(&self) -> (StoppedOnDrop, String) {
        let mut serve = command(program("svc-http"));
        serve.args(["--listen", "127.0.0.1:0", "--data"]).arg(self.data()).stdout(Stdio::piped());
        let mut server = StoppedOnDrop(serve.spawn().unwrap());
        let first = BufReader::new(server.0.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        (server, first.rsplit(' ').next().unwrap().to_owned())
    }

    /// Starts the agent on a separate pipe.
    fn on_a_pipe(&self, token: &str, mode: &str) -> Option<Agent> {
        let svc = program("svc");
        let data = self.data();
        self.agent(token, &["--mode", mode, svc.to_str().unwrap(), "--data", data.to_str().unwrap()])
    }

    /// Starts the bearer of the token called `token`, if there is a Python to run it.
    fn agent(&self, token: &str, arguments: &[&str]) -> Option<Agent> {
        let Some(python) = std::env::var_os(PYTHON) else {
            skipped("outside clients", PYTHON);
            return None;
        };
        let mut command = command(python);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("py/mcp_agent.py")).args(arguments);
        command.env("SVC_TOKEN", self.secret(token));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Some(Agent { input: child.stdin.take(), said, child })
    }
}

/// One agent.
struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    said: Lines<BufReader<ChildStdout>>,
}

impl Agent {
    fn read(&mut self) -> Value {
        let line = self.said.next().expect("the client ended").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Calls a tool and returns its outcome.
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let command = json!({"tool": tool, "arguments": arguments});
        writeln!(self.input.as_mut().unwrap(), "{command}").unwrap();
        self.read()
    }

    /// Calls a tool that must succeed.
    fn must(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.call(tool, arguments);
        assert!(answer.get("result").is_some(), "{tool}: {answer}");
        answer["result"].clone()
    }

    /// Disconnects; both the client and the server that it started must exit successfully.
    fn leave(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// Lets two agents find, claim and finish a task.
fn a_days_work(home: &AgentFolder, revision: &str, mut worker: Agent, mut admin: Agent) {
    let few = worker.read();
    let all = admin.read();
    assert_eq!((&few["protocol"], &all["protocol"]), (&json!(revision), &json!(revision)));
    let tools = |agreed: &Value| agreed["tools"].as_array().unwrap().len();
    assert!(tools(&all) > tools(&few) && few["next_cursor"].is_null());
    let channel = admin.must("create_channel", json!({"workspace_id": home.workspace(), "name": "work"}));
    let none = worker.must("claim_next_thread", json!({"channel_id": channel["id"]}));
    assert_eq!(none, json!({}), "nothing is there to be claimed");
    let ready = json!({"workspace_id": home.workspace(), "channel_id": channel["id"], "timeout_secs": 1});
    assert_eq!(worker.must("wait_for_ready", ready), json!({"timed_out": true}));
    let thread = admin.must("create_thread", json!({"channel_id": channel["id"], "title": "Mend the roof"}));
    let id = &thread["id"];
    let claimed = worker.must("claim_next_thread", json!({"channel_id": channel["id"], "lease_secs": 60}));
    assert_eq!(claimed["id"], *id);
    let second = admin.must("claim_next_thread", json!({"channel_id": channel["id"]}));
    assert_eq!(second, json!({}), "one task is claimed once");
    worker.must("acknowledge_claim", json!({"thread_id": id}));
    worker.must("post_message", json!({"thread_id": id, "body": "On the ladder now."}));
    let lease = json!({"thread_id": id, "claim_lease_id": claimed["claim_lease_id"]});
    worker.must("renew_claim", lease);
    let brief = admin.must("get_thread_context", json!({"thread_id": id}));
    assert_eq!(brief["messages"][0]["body"], "On the ladder now.");
    worker.must("set_thread_result", json!({"thread_id": id, "result": {"tiles": 12}}));
    worker.must("transition_thread", json!({"thread_id": id, "action": "start_review"}));
    let closed = admin.must("transition_thread", json!({"thread_id": id, "action": "close"}));
    assert_eq!(closed["state"], "closed");

    let nobody = "00000000-0000-7000-8000-000000000000";
    assert_eq!(worker.call("no_such_tool", json!({}))["code"], -32602);
    // The client has listed the tools, and so checks results against their schemas.
    for (tool, arguments, status) in [
        ("create_channel", json!({"name": 7}), 400),
        ("revoke_token", json!({"token_id": nobody}), 403),
        ("get_thread", json!({"thread_id": nobody}), 404),
        ("transition_thread", json!({"thread_id": id, "action": "start_review"}), 409),
    ] {
        let refused = worker.call(tool, arguments);
        assert_eq!(refused["problem"]["status"], status, "{refused}");
        let said = refused["text"].as_str().unwrap();
        let detail = refused["problem"]["detail"].as_str().unwrap();
        assert!(said.contains(tool) && said.contains(detail), "{said}");
    }
    worker.leave();
    admin.leave();
}

const MODES: [(&str, &str); 3] =
    [("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")];

#[test]
fn agents_on_pipes_work_together() {
    for (mode, revision) in MODES {
        let home = AgentFolder::make();
        let Some(worker) = home.on_a_pipe("agent_token", mode) else { return };
        let Some(admin) = home.on_a_pipe("token", mode) else { return };
        a_days_work(&home, revision, worker, admin);
    }
}

#[test]
fn agents_at_one_server_work_together() {
    for (mode, revision) in MODES {
        let home = AgentFolder::make();
        let (_server, address) = home.served();
        let url = format!("{address}/mcp");
        let Some(worker) = home.agent("agent_token", &["--mode", mode, &url]) else { return };
        let Some(admin) = home.agent("token", &["--mode", mode, &url]) else { return };
        a_days_work(&home, revision, worker, admin);
    }
}

/// An independent client reads the service's own description of SCIM, and then tests all of it.
///
/// The agent's token is the control: it lacks the capability, so no check passes.
#[test]
fn scim_is_as_its_outside_tester_expects() {
    let Some(python) = std::env::var_os(PYTHON) else { return skipped("outside clients", PYTHON) };
    let home = AgentFolder::make();
    let (_server, address) = home.served();
    for (token, passes) in [("token", true), ("agent_token", false)] {
        let mut tester = command(&python);
        tester.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("py/check_scim.py"));
        tester.arg(format!("{address}/scim/v2"));
        let tested = tester.env("SVC_TOKEN", home.secret(token)).output().unwrap();
        let said = String::from_utf8_lossy(&tested.stdout);
        let failure = String::from_utf8_lossy(&tested.stderr);
        assert_eq!(tested.status.success(), passes, "{token}: {said}\n{failure}");
        assert!(said.contains(" passed"), "{token}: {said}\n{failure}");
    }
}

/// A process that ends with the test.
pub(super) struct StoppedOnDrop(pub Child);

impl Drop for StoppedOnDrop {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
