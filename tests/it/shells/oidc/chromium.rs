//! A person in Chromium, an independent provider on another site, and a page on another port of its host.
//!
//! The requests of real browsers decide whether a cookie counts, so the test uses one.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::client::Answer;
use svc_tests::database::skipped;
use svc_tests::process::RunningProgram;
use svc_tests::site::{Server, Site};
use svc_tests::text;

/// The variable with the folder that has the packages of tests/js, a copy of its scripts, and the program
/// `node`.
const SCRIPTS: &str = "SVC_TEST_JS";
/// The variable with the program; the script starts it.
const CHROMIUM: &str = "SVC_TEST_CHROMIUM";

/// Chromium and the provider, run by a script.
struct Browser {
    running: RunningProgram,
    /// The provider's issuer, and its registration of the service.
    provider: Value,
}

impl Browser {
    fn start(service: &str) -> Option<Self> {
        let scripts = std::env::var_os(SCRIPTS)?;
        let _ = std::env::var_os(CHROMIUM)?;
        let scripts = PathBuf::from(scripts);
        let script = scripts.join("browser.mjs");
        let mut running = RunningProgram::start(Command::new(scripts.join("node")).arg(script).arg(service));
        let provider = serde_json::from_str(&running.next_line()).unwrap();
        Some(Self { running, provider })
    }

    fn provider(&self, field: &str) -> String {
        text(&self.provider[field])
    }

    /// Runs a command in it.
    fn run(&mut self, command: &str, mut input: Value) -> Value {
        input["command"] = json!(command);
        self.running.say(&input.to_string());
        serde_json::from_str(&self.running.next_line()).unwrap()
    }

    /// Fetches a path from a page of the service.
    fn fetch(&mut self, path: &str, token: Option<&str>) -> Value {
        self.run("ownFetch", json!({"path": path, "token": token}))
    }
}

/// Starts a server at `address` whose people sign in at the browser's provider.
fn serve(site: &Site, address: &str, browser: &Browser) -> Server {
    let redirect_uri = format!("http://{address}/auth/oidc/callback");
    let mut command = site.command("svc-http", &["--listen", address]);
    command.envs([
        ("SVC_SESSION_SECRET", "the key of the cookies in this test"),
        ("SVC_OIDC_ENABLED", "1"),
        ("SVC_OIDC_AUTO_PROVISION", "1"),
        ("SVC_OIDC_REDIRECT_URI", &redirect_uri),
        ("SVC_OIDC_ISSUER", &browser.provider("issuer")),
        ("SVC_OIDC_CLIENT_ID", &browser.provider("client_id")),
        ("SVC_OIDC_CLIENT_SECRET", &browser.provider("client_secret")),
    ]);
    Server::begin(&mut command)
}

/// Returns a free address, because the provider must know it before the server starts.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn a_person_signs_in_and_no_other_page_acts_as_them() {
    let address = free_address();
    let own = format!("http://{address}");
    let Some(mut browser) = Browser::start(&own) else { return skipped("a browser", CHROMIUM) };
    let site = Site::found(Engine::Sqlite);
    let server = serve(&site, &address, &browser);
    let workspace = &site.founders.workspace_id;
    let admin = server.caller(&site.founders.admin);

    let issuer = browser.provider("issuer");
    let landed = browser.run("signIn", json!({"workspace": workspace, "person": "ada"}));
    assert_eq!((&landed["passed"], &landed["path"]), (&json!([issuer, own]), &json!("/ui/")));
    let cookie = json!({"name": "svc_session", "httpOnly": true, "sameSite": "Lax"});
    assert_eq!(landed["cookies"], json!([cookie]), "that of the sign-in has ended");
    let session = browser.fetch("/auth/session", None);
    assert_eq!(session["status"], 200, "{session:#}");
    let me = browser.fetch("/me", None);
    assert_eq!((&me["status"], &me["body"]["token_id"]), (&json!(200), &Value::Null), "{me:#}");
    let member = text(&me["body"]["member_id"]);

    let tokens = format!("/workspaces/{workspace}/members/{member}/tokens");
    let minted = admin.post(&tokens, json!({"capabilities": ["workspace:read"]}));
    let beside = browser.fetch("/me", minted["secret"].as_str());
    assert_eq!((&beside["status"], &beside["body"]["token_id"]), (&json!(200), &minted["id"]), "{beside:#}");
    let other = browser.fetch("/me", Some(&site.founders.agent));
    assert_eq!(other["status"], 401, "a token of another member beside the cookie: {other:#}");

    let frame = json!({"filter": {"workspace_id": workspace}});
    let opened = browser.run("ownSocket", json!({"frame": frame}));
    assert_eq!(opened["frame"]["type"], "subscribe_ack", "{opened:#}");

    let position = || -> i64 {
        let me: Answer = admin.ask("GET", "/me", None);
        me.lsn().unwrap()
    };
    let before = position();
    for (path, body) in [
        ("/auth/logout".to_owned(), json!({"everywhere": true})),
        (format!("/workspaces/{workspace}/channels"), json!({"name": "hostile"})),
    ] {
        let tried = browser.run("attack", json!({"path": path, "body": body.to_string(), "frame": frame}));
        let fetched = &tried["fetched"];
        assert_eq!(
            (&fetched["read"], &fetched["change"]),
            (&json!("blocked"), &json!("blocked")),
            "{tried:#}"
        );
        assert_eq!(tried["form"], 401, "{path}: {tried:#}");
        assert_eq!(tried["websocket"], json!({"closed": 1008}), "{tried:#}");
        let statuses = tried["statuses"].as_array().unwrap();
        assert!(statuses.len() >= 3, "the page sent what it could: {tried:#}");
        for answered in statuses {
            let status = answered[1].as_u64().unwrap();
            assert!((400..500).contains(&status), "{answered}: {tried:#}");
        }
    }
    assert_eq!(position(), before, "the hostile page changed something");
    assert_eq!(browser.fetch("/auth/session", None)["status"], 200, "and ended no session");
    // The control: the same page of the service may do what the foreign page may not.
    let out = browser.run("ownFetch", json!({"path": "/auth/logout", "method": "POST", "body": "{}"}));
    assert_eq!(out["status"], 200, "{out:#}");
    assert_eq!(browser.fetch("/me", None)["status"], 401);
}
