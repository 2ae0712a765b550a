//! Tokens as people paste them: an invalid token is reported, and surrounding characters of editors are
//! dropped.

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::process::{RunningProgram, run};
use svc_tests::site::Site;
use svc_tests::{World, text};

const PLACEHOLDER: &str = "is a placeholder";
const QUOTED: &str = "is in quotation marks";
const SCHEME: &str = "begins with a scheme";

/// Texts in place of a token, and the error for them. `TOKEN` stands for a token.
const PASTED: [(&str, &str); 14] = [
    ("${SVC_TOKEN}", PLACEHOLDER),
    ("$SVC_TOKEN", PLACEHOLDER),
    ("{env:SVC_TOKEN}", PLACEHOLDER),
    ("${env:SVC_TOKEN}", PLACEHOLDER),
    ("${input:svc}", PLACEHOLDER),
    ("%SVC_TOKEN%", PLACEHOLDER),
    ("<your token>", PLACEHOLDER),
    ("{{SVC_TOKEN}}", PLACEHOLDER),
    ("Bearer ${SVC_TOKEN}", PLACEHOLDER),
    ("\"TOKEN\"", QUOTED),
    ("'TOKEN'", QUOTED),
    ("\"TOKEN", QUOTED),
    ("Bearer TOKEN", SCHEME),
    ("TOKEN TOKEN", "has white space"),
];

/// Returns the text with a token.
fn with(pasted: &str, token: &str) -> String {
    if pasted.contains("SVC_TOKEN") { pasted.to_owned() } else { pasted.replace("TOKEN", token) }
}

const INIT: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;

#[test]
fn programs_name_what_is_no_token_and_drop_what_is_around_one() {
    let site = Site::found(Engine::Sqlite);
    let token = site.founders.agent.clone();
    for (pasted, wanted) in PASTED {
        let value = with(pasted, &token);
        for arguments in [&["mcp-stdio"][..], &["freeze", "--member", "nobody"]] {
            let ended = run(site.command("svc", arguments).env("SVC_TOKEN", &value));
            assert!(ended.code.is_some_and(|code| code != 0), "{pasted} {arguments:?}: {ended:?}");
            assert!(ended.err.contains(wanted) && ended.err.contains("SVC_TOKEN"), "{pasted}: {}", ended.err);
            assert!(!ended.err.contains(&token), "{pasted}: {}", ended.err);
        }
    }
    let file = site.path().join("pasted");
    std::fs::write(&file, format!("\u{feff}{token}\r\n")).unwrap();
    let file = file.to_str().unwrap().to_owned();
    for (name, value) in [
        ("SVC_TOKEN", format!("{token}\n")),
        ("SVC_TOKEN", format!("{token}\r\n")),
        ("SVC_TOKEN", format!("\u{feff} {token} ")),
        ("SVC_TOKEN_FILE", file),
    ] {
        let mut pipe = RunningProgram::start(site.command("svc", &["mcp-stdio"]).env(name, value));
        pipe.say(&format!("\u{feff}{INIT}"));
        let answer: Value = serde_json::from_str(&pipe.next_line()).unwrap();
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18", "{name}");
        assert_eq!(pipe.ended().code, Some(0));
    }
}

#[test]
fn a_server_names_what_is_no_token() {
    let world = World::open(Engine::Sqlite);
    let token = world.people.agent.as_str();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for (pasted, wanted) in PASTED {
        let value = with(pasted, token);
        let refused =
            world.rest().send(Some(&value), "GET", "/me", &[], None).refused(401, "unauthenticated");
        assert!(text(&refused["detail"]).contains(wanted), "{pasted}: {refused}");
        let refused = world.rest().send(Some(&value), "POST", "/mcp", &[], Some(&ping));
        assert_eq!(refused.status, 401);
        let said = refused.body["error"]["data"]["detail"].to_string();
        assert!(said.contains(wanted) && !refused.body.to_string().contains(token), "{pasted}: {said}");
    }
    let unknown = world.rest().send(Some("svc_0aB"), "GET", "/me", &[], None).refused(401, "unauthenticated");
    assert_eq!(unknown["detail"], "the token is unknown");
    world.rest().send(Some(token), "GET", "/me", &[], None).output();
}
