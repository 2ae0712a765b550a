//! Approvals in Chromium: the card in the window of a client.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_mcp_stdio::card;
use svc_tests::database::skipped;
use svc_tests::process::RunningProgram;
use svc_tests::site::Site;
use svc_tests::text;

/// Chromium, run by a script.
struct Browser(RunningProgram);

impl Browser {
    fn start() -> Option<Self> {
        let scripts = std::env::var_os("SVC_TEST_JS")?;
        let _ = std::env::var_os("SVC_TEST_CHROMIUM")?;
        let scripts = PathBuf::from(scripts);
        let script = scripts.join("approvals.mjs");
        Some(Self(RunningProgram::start(Command::new(scripts.join("node")).arg(script))))
    }

    fn run(&mut self, command: &str, mut input: Value) -> Value {
        input["command"] = json!(command);
        self.0.say(&input.to_string());
        serde_json::from_str(&self.0.next_line()).unwrap()
    }

    fn press(&mut self, id: &str) -> Value {
        self.run("press", json!({"id": id}))
    }
}

/// Text that must not be read as markup.
const QUESTION: &str = "May <b>all</b> go? <img src=x onerror=alert(1)></script>";

#[test]
fn a_card_decides_by_its_host_and_opens_the_link() {
    let Some(mut browser) = Browser::start() else { return skipped("a browser", "SVC_TEST_CHROMIUM") };
    let html = text(&card::approval().contents["text"]);
    let gate = |state: &str, more: Value| {
        let mut gate = json!({"id": "g", "state": state, "question": QUESTION, "blocks_close": true,
                              "requested_at": "2026-01-01T00:00:00Z"});
        gate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"content": [{"type": "text", "text": "x"}], "structuredContent": gate, "isError": false})
    };
    let shown = browser.run("card", json!({"html": html, "result": gate("pending", json!({}))}));
    assert_eq!(shown["buttons"], json!(["accept", "decline"]), "{shown:#}");
    assert!(shown["text"].as_str().unwrap().contains(QUESTION), "{shown:#}");
    assert_eq!((&shown["images"], &shown["errors"]), (&json!(0), &json!([])));

    let refused = json!({"content": [{"type": "text", "text": "the thread is archived"}], "isError": true});
    browser.run("answering", json!({"result": refused}));
    let still = browser.press("accept");
    assert_eq!(
        (&still["status"], &still["buttons"]),
        (&json!("the thread is archived"), &json!(["accept", "decline"]))
    );
    let link = json!({"link": {"url": "https://svc.example.com/ui/approvals/x"}});
    browser.run("answering", json!({"result": gate("pending", link)}));
    let left = browser.press("accept");
    assert_eq!(left["buttons"], json!(["open"]), "{left:#}");
    let decided = browser.run("card", json!({"html": html, "result": gate("declined", json!({}))}));
    assert_eq!((&decided["title"], &decided["buttons"]), (&json!("The approval is declined"), &json!([])));

    let asking = json!({"inputRequests": {"decision": {"params": {"url": "https://svc.example.com/ui/x"}}}});
    browser.run("card", json!({"html": html, "result": asking}));
    browser.press("open");
    let context = browser.run("asked", json!({}));
    let last = context.as_array().unwrap().last().unwrap();
    assert_eq!(last, &json!({"method": "ui/open-link", "params": {"url": "https://svc.example.com/ui/x"}}));
    let first = &context[0];
    assert_eq!(
        (&first["method"], &first["params"]["protocolVersion"]),
        (&json!("ui/initialize"), &json!("2026-01-26"))
    );
}

#[test]
fn a_card_decides_and_opens_the_link_by_a_bridge_that_is_not_ours() {
    let Some(mut browser) = Browser::start() else { return skipped("a browser", "SVC_TEST_CHROMIUM") };
    let site = Site::found(Engine::Sqlite);
    let server = site.serve(&[]);
    let founders = &site.founders;
    let admin = server.caller(&founders.admin);
    let agent = server.caller(&founders.agent);
    let channels = format!("/workspaces/{}/channels", founders.workspace_id);
    let channel = text(&admin.post(&channels, json!({"name": "work"}))["id"]);
    let thread = admin.post(&format!("/channels/{channel}/threads"), json!({"title": "the old tables"}));
    let gates = format!("/threads/{}/approval-gates", text(&thread["id"]));
    let gate = text(&agent.post(&gates, json!({"question": QUESTION}))["id"]);
    let state = || text(&admin.get(&format!("/approval-gates/{gate}"))["state"]);
    let accept_in = |browser: &mut Browser, token: &str| {
        let url = format!("http://{}/mcp", server.address());
        let arguments = json!({"gate_id": gate});
        let call = json!({"url": url, "token": token, "tool": "get_approval_gate", "arguments": arguments});
        let shown = browser.run("bridge", call);
        assert_eq!(shown["uri"], "ui://svc/approval-card.html");
        assert_eq!((&shown["buttons"], &shown["images"]), (&json!(["accept", "decline"]), &json!(0)));
        assert!(shown["text"].as_str().unwrap().contains(QUESTION), "{shown:#}");
        let pressed = browser.press("accept");
        assert_eq!(pressed["errors"], json!([]), "{pressed:#}");
        pressed
    };

    // The agent may not decide: its card has the link for a person.
    let left = accept_in(&mut browser, &founders.agent);
    assert_eq!((&left["buttons"], &*state()), (&json!(["open"]), "pending"), "{left:#}");
    browser.press("open");
    let opened = browser.run("opened", json!({}));
    let link = format!("http://{}/ui/approvals/", server.address());
    assert!(opened[0].as_str().unwrap().starts_with(&link), "{opened}");
    let accepted = accept_in(&mut browser, &founders.admin);
    assert_eq!((&accepted["buttons"], &*state()), (&json!([]), "accepted"), "{accepted:#}");
}
