//! Rewrapping: everything that a retired key wraps is rewrapped under the current one, wherever the command
//! is interrupted.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::database::engines;
use svc_tests::in_parallel;
use svc_tests::ordeal::{any_below, rounds};
use svc_tests::process::{RunningProgram, until};
use svc_tests::site::{Server, Site, done};

/// Workspaces, and so key segments: more than one step rewraps.
const WORKSPACES: usize = 100;

/// Keys; each round takes the next one as its current key.
struct Keys {
    known: Vec<String>,
}

impl Keys {
    fn of(site: &Site) -> Self {
        Self { known: vec![hex::encode(site.kek())] }
    }

    fn rotate(&mut self) {
        self.known.push(hex::encode([u8::try_from(self.known.len()).unwrap(); 32]));
    }

    /// Returns the variables of a process with the current key and the one before.
    fn variables(&self) -> Vec<(&'static str, String)> {
        let mut keys = self.known.iter().rev();
        let present = ("SVC_CONTENT_KEK", keys.next().unwrap().clone());
        let before = keys.next().map(|key| ("SVC_CONTENT_KEK_PREVIOUS", key.clone()));
        [present].into_iter().chain(before).collect()
    }

    /// Returns those of a process with only the current key.
    fn only_present(&self) -> Vec<(&'static str, String)> {
        self.variables().into_iter().take(1).collect()
    }

    fn id(&self, place: usize) -> String {
        let key = hex::decode(&self.known[place]).unwrap();
        hex::encode(&svc_core::hash::sha256(&[b"svc.kek-id/1".as_slice(), &key].concat())[..8])
    }
}

fn serve(site: &Site, variables: &[(&'static str, String)]) -> Server {
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    site.serve(&variables)
}

fn begin(site: &Site, keys: &Keys) -> RunningProgram {
    RunningProgram::start(site.command("svc", &["rewrap", "--json"]).envs(keys.variables()))
}

/// Runs the command to its end, and returns its output.
fn rewrap(site: &Site, keys: &Keys) -> Value {
    let ended = begin(site, keys).ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

/// A message, and the token of a reader.
struct PostedMessage {
    message: String,
    token: String,
}

/// Posts three messages in each of many workspaces.
fn post(site: &Site) -> Vec<PostedMessage> {
    let service = site.open();
    let call = |token: &str, operation: &str, input: Value| done(&service, token, operation, input);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let said = in_parallel(WORKSPACES, |number| {
        let made = json!({"name": format!("number {number}"), "admin_handle": "ada"});
        let made = call(&site.founders.admin, "create_workspace", made);
        let workspace = &made["workspace"]["id"];
        let token = text(&made["token"]["secret"]);
        let channel = call(&token, "create_channel", json!({"workspace_id": workspace, "name": "general"}));
        let thread = call(&token, "create_thread", json!({"channel_id": channel["id"], "title": "a task"}));
        let posted = || call(&token, "post_message", json!({"thread_id": thread["id"], "body": "kept"}));
        (0..3)
            .map(|_| PostedMessage { message: text(&posted()["id"]), token: token.clone() })
            .collect::<Vec<PostedMessage>>()
    });
    said.into_iter().flatten().collect()
}

fn read(server: &Server, said: &PostedMessage) -> Value {
    let path = format!("/messages/{}", said.message);
    server.rest.send(Some(&said.token), "GET", &path, &[], None).output()
}

/// Returns how many key segments a key wraps.
fn wrapped_by(site: &Site, id: &str) -> i64 {
    site.database.number(&match site.engine() {
        Engine::Sqlite => format!("select count(*) from shelves where substr(sealed, 1, 8) = x'{id}'"),
        Engine::Postgres => format!("select count(*) from shelves where substr(sealed, 1, 8) = '\\x{id}'"),
    })
}

/// Each round rotates the key, kills the command after some steps, and withdraws messages at the same time.
#[test]
fn a_rewrap_that_is_killed_is_whole_and_a_withdrawal_meanwhile_stands() {
    for engine in engines() {
        let site = Site::found(engine);
        let mut keys = Keys::of(&site);
        let mut said = post(&site);
        let shelves = site.database.number("select count(*) from shelves");
        assert!(shelves >= 100, "{shelves}");
        for round in 1..=rounds() * 2 {
            keys.rotate();
            let server = serve(&site, &keys.variables());
            let present = keys.id(round);
            let mut running = begin(&site, &keys);
            let withdrawn: Vec<PostedMessage> = said.split_off(said.len() - 20);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for said in &withdrawn {
                        let path = format!("/messages/{}", said.message);
                        server.rest.send(Some(&said.token), "DELETE", &path, &[], None).output();
                    }
                });
                let wanted = 1 + i64::try_from(any_below(99)).unwrap();
                until("a step of the rewrap", || wrapped_by(&site, &present) >= wanted);
                running.kill();
            });
            said.iter().for_each(|said| assert_eq!(read(&server, said)["body"], "kept"));
            let done = rewrap(&site, &keys);
            assert_eq!((&done["key_id"], &done["left"]), (&json!(present), &json!({})), "{done}");
            // The killed one may have already removed the key before it.
            let unused = &done["unused"];
            assert!(*unused == json!([]) || *unused == json!([keys.id(round - 1)]), "{done}");
            assert_eq!(site.database.number("select count(*) from key_checks"), 1);
            assert_eq!(wrapped_by(&site, &present), shelves);
            drop(server);
            // The key before it is no longer needed.
            let server = serve(&site, &keys.only_present());
            said.iter().for_each(|said| assert_eq!(read(&server, said)["body"], "kept"));
            for gone in &withdrawn {
                let shown = read(&server, gone);
                assert_eq!((&shown["body"], &shown["withdrawn"]), (&json!(""), &json!(true)));
            }
            assert_eq!(rewrap(&site, &keys)["moved"], json!(0));
        }
    }
}

/// A server that still seals with a key registers it again, and then no server starts without it.
#[test]
fn a_key_that_a_server_still_has_is_asked_for_again() {
    for engine in engines() {
        let site = Site::found(engine);
        let mut keys = Keys::of(&site);
        let old = serve(&site, &keys.variables());
        keys.rotate();
        assert_eq!(rewrap(&site, &keys)["unused"], json!([keys.id(0)]));
        until("the check value", || site.database.number("select count(*) from key_checks") == 2);
        let variables: BTreeMap<&str, String> = keys.only_present().into_iter().collect();
        let refused = RunningProgram::start(
            site.command("svc-http", &["--listen", "127.0.0.1:0"]).envs(&variables).env("SVC_LOG", "error"),
        );
        let refused = refused.ended();
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(&keys.id(0)), "{refused:?}");
        drop(old);
        let done = rewrap(&site, &keys);
        assert_eq!((&done["unused"], &done["left"]), (&json!([keys.id(0)]), &json!({})));
        drop(serve(&site, &keys.only_present()));
    }
}
