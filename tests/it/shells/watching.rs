//! Notifications of changes over MCP: their receivers, their server, and their end.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::op::Credential;
use svc_core::time::Clock;
use svc_core::{Code, Service};
use svc_mcp_stdio::refusal::Refusal;
use svc_mcp_stdio::revision::Revision;
use svc_mcp_stdio::{NotificationPart, Principal};
use svc_tests::client::Answer;
use svc_tests::client::mcp::{REVISION, message};
use svc_tests::database::engines;
use svc_tests::{Setup, World, call, on_both_engines, runtime, text};

const DAY: Duration = Duration::from_secs(86_401);
const UPDATED: &str = "notifications/resources/updated";

/// The response to a request as server-sent events.
struct Events {
    body: Incoming,
    left: Vec<u8>,
}

impl Events {
    fn listen(world: &World, token: &str, wanted: &Value) -> Self {
        let headers = [
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", REVISION),
            ("mcp-method", "subscriptions/listen"),
        ];
        let body = Bytes::from(message("subscriptions/listen", json!({"notifications": wanted})).to_string());
        let rest = world.rest();
        let response = runtime().block_on(rest.raw(Some(token), "POST", "/mcp", &headers, Some(body)));
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), left: Vec::new() }
    }

    /// Returns the next message, or `None` at the end.
    fn next(&mut self) -> Option<Value> {
        runtime().block_on(async {
            loop {
                if let Some(end) = self.left.windows(2).position(|pair| pair == b"\n\n") {
                    let event: Vec<u8> = self.left.drain(..end + 2).collect();
                    match event.strip_prefix(b"data: ") {
                        Some(data) => return Some(serde_json::from_slice(data).unwrap()),
                        None => continue,
                    }
                }
                let frame = tokio::time::timeout(Duration::from_secs(60), self.body.frame()).await.unwrap();
                self.left.extend_from_slice(frame?.unwrap().data_ref().unwrap());
            }
        })
    }

    fn acknowledged(&mut self) -> Value {
        let message = self.next().unwrap();
        assert_eq!(message["method"], "notifications/subscriptions/acknowledged", "{message:#}");
        message["params"]["notifications"].clone()
    }
}

/// Runs a test with a second server on the same database, which polls for the changes of the first.
fn with_another_server(test: impl Fn(&World, &Service)) {
    for engine in engines() {
        let world = World::with(engine, Setup { clock: Clock::system(), ..Setup::default() });
        test(&world, &world.another_service(7));
    }
}

fn uri(thread: &str) -> String {
    format!("svc://threads/{thread}")
}

fn updated(uri: &str) -> Value {
    let meta = json!({"io.modelcontextprotocol/subscriptionId": 1});
    json!({"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri, "_meta": meta}})
}

fn say(world: &World, thread: &str) {
    world.admin("post_message", json!({"thread_id": thread, "body": "something new"}));
}

#[test]
fn what_is_hidden_from_a_caller_is_not_told_even_once_it_was_visible() {
    on_both_engines(|world| {
        let agent = world.people.agent.as_str();
        let open = world.new_channel("open");
        let closed = world.new_private_channel("closed");
        let seen = world.new_thread(&open, "seen");
        let hidden = world.new_thread(&closed, "hidden");
        let wanted = json!({"resourceSubscriptions": [uri(&hidden), uri(&seen)]});
        let mut blind = Events::listen(world, agent, &wanted);
        assert_eq!(blind.acknowledged(), json!({"resourceSubscriptions": [uri(&seen)]}));
        let member = json!({"channel_id": closed, "member_id": world.id("agent")});
        world.admin("add_channel_member", member.clone());
        let mut sighted = Events::listen(world, agent, &wanted);
        assert_eq!(sighted.acknowledged()["resourceSubscriptions"].as_array().unwrap().len(), 2);
        say(world, &hidden);
        assert_eq!(sighted.next().unwrap(), updated(&uri(&hidden)));
        world.admin("remove_channel_member", member);
        say(world, &hidden);
        say(world, &seen);
        assert_eq!(sighted.next().unwrap(), updated(&uri(&seen)));
        assert_eq!(blind.next().unwrap(), updated(&uri(&seen)));
    });
}

#[test]
fn a_listener_is_told_of_what_happens_at_another_server() {
    with_another_server(|world, other| {
        let thread = world.new_thread(&world.new_channel("open"), "task");
        let wanted = json!({"resourcesListChanged": true, "resourceSubscriptions": [uri(&thread)]});
        let mut events = Events::listen(world, &world.people.agent, &wanted);
        assert_eq!(events.acknowledged(), wanted);
        let post = json!({"thread_id": thread, "body": "from elsewhere"});
        call(other, Some(&world.people.admin), "post_message", &post).unwrap();
        assert_eq!(events.next().unwrap(), updated(&uri(&thread)));
    });
}

#[test]
fn a_stream_ends_with_its_credential() {
    on_both_engines(|world| {
        let (_, token) = world.new_agent("short-lived");
        let mut events = Events::listen(world, &token, &json!({"resourcesListChanged": true}));
        events.acknowledged();
        let mut told = NotificationStream::begin(&world.service, &token, &[], None).unwrap();
        assert!(told.next().unwrap().message.is_empty());
        let rotated = world.call(&token, "rotate_token", json!({}));
        assert!(rotated.is_success(), "{:#}", rotated.body);
        let last = events.next().unwrap();
        assert_eq!((&last["id"], &last["error"]["code"]), (&json!(1), &json!(401)), "{last:#}");
        assert_eq!(events.next(), None);
        assert_eq!(told.next(), None);
        let refused = NotificationStream::begin(&world.service, &token, &[], None).map(drop).unwrap_err();
        assert_eq!(refused.error.unwrap().code(), Code::Unauthenticated);
    });
}

/// The stream of notifications of a token.
struct NotificationStream(BoxStream<'static, NotificationPart>);

impl NotificationStream {
    fn begin(service: &Service, token: &str, uris: &[String], after: Option<i64>) -> Result<Self, Refusal> {
        runtime().block_on(async {
            let credential = Credential::Bearer(SecretString::from(token));
            let head = svc_mcp_stdio::head(credential, Some([127, 0, 0, 1].into()));
            let caller = Principal::admitted(service, head).await.map_err(svc_core::Error::from)?;
            let uris = uris.to_vec();
            let revision = Revision::V20251125;
            let told = svc_mcp_stdio::notifications(service, &caller, revision, uris, after).await?;
            Ok(Self(told))
        })
    }

    fn next(&mut self) -> Option<NotificationPart> {
        runtime()
            .block_on(async { tokio::time::timeout(Duration::from_secs(60), self.0.next()).await.unwrap() })
    }

    /// Returns the position at which it begins.
    fn begins(&mut self) -> i64 {
        let told = self.next().unwrap();
        assert!(told.message.is_empty(), "{told:?}");
        told.position.unwrap()
    }

    /// Returns the address of the updated resource.
    fn updated(&mut self) -> String {
        let told = self.next().unwrap();
        let message: Value = serde_json::from_slice(&told.message).unwrap();
        assert_eq!(message["method"], UPDATED, "{message:#}");
        text(&message["params"]["uri"])
    }
}

fn legacy(world: &World, token: &str, method: &str, uri: &str) -> Answer {
    let headers = [("accept", "application/json"), ("mcp-protocol-version", "2025-11-25")];
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"uri": uri}});
    world.rest().send(Some(token), "POST", "/mcp", &headers, Some(&message))
}

#[test]
fn what_a_token_has_subscribed_to_is_told_by_any_server() {
    with_another_server(|world, other| {
        let agent = world.people.agent.as_str();
        let channel = world.new_channel("open");
        let first = world.new_thread(&channel, "first");
        let second = world.new_thread(&channel, "second");
        let mut told = NotificationStream::begin(other, agent, &[], None).unwrap();
        let mut admin = NotificationStream::begin(other, &world.people.admin, &[uri(&second)], None).unwrap();
        let begins = told.begins();
        admin.begins();
        for _ in 0..2 {
            let answer = legacy(world, agent, "resources/subscribe", &uri(&first));
            assert_eq!((answer.status, &answer.body["result"]), (200, &json!({})), "{:#}", answer.body);
        }
        assert_eq!(world.database.number("select count(*) from resource_subscriptions"), 1);
        say(world, &first);
        assert_eq!(told.updated(), uri(&first), "it was subscribed to after the stream had begun");
        say(world, &second);
        assert_eq!(admin.updated(), uri(&second), "of what another token has subscribed to it is not told");

        // A client that reconnects is notified of changes since then, but not of resources that it has read.
        // The list that it saw is not known, so it may have changed.
        drop(told);
        let mut again =
            NotificationStream::begin(&world.service, agent, &[uri(&second)], Some(begins)).unwrap();
        assert_eq!(again.begins(), begins);
        let all = [again.next().unwrap(), again.next().unwrap(), again.next().unwrap()];
        let positions = all.each_ref().map(|told| told.position);
        assert_eq!(positions, [None, None, Some(world.lsn())], "{all:?}");
        assert!(String::from_utf8_lossy(&all[2].message).contains("list_changed"), "{all:?}");
        say(world, &second);
        assert_eq!(again.updated(), uri(&second));
        // If the log lacks the following events, anything may have changed.
        let ahead = world.lsn() + 1_000_000;
        let mut lost = NotificationStream::begin(&world.service, agent, &[], Some(ahead)).unwrap();
        let [updated, last] = [lost.next().unwrap(), lost.next().unwrap()];
        assert!(String::from_utf8_lossy(&updated.message).contains(&uri(&first)), "{updated:?}");
        let positions = (updated.position, last.position);
        assert_eq!(positions, (None, Some(world.lsn())), "there is no position before what was missed");

        assert_eq!(legacy(world, agent, "resources/unsubscribe", &uri(&first)).body["result"], json!({}));
        assert_eq!(world.database.number("select count(*) from resource_subscriptions"), 0);
    });
}

#[test]
fn subscriptions_of_a_token_are_limited_to_what_it_sees_and_to_a_day() {
    on_both_engines(|world| {
        let agent = world.people.agent.as_str();
        let closed = world.new_private_channel("closed");
        for uri in [format!("svc://channels/{closed}"), "svc://x".to_owned()] {
            let refused = legacy(world, agent, "resources/subscribe", &uri).body["error"].take();
            assert_eq!((&refused["code"], &refused["data"]["uri"]), (&json!(-32002), &json!(uri)));
            let refused =
                NotificationStream::begin(&world.service, agent, &[uri], None).map(drop).unwrap_err();
            assert_eq!(refused.code(), -32002);
        }
        let channel = world.new_channel("open");
        let threads: Vec<String> = (0..=100).map(|n| world.new_thread(&channel, &format!("{n}"))).collect();
        let (last, others) = threads.split_last().unwrap();
        for thread in others {
            let answer = legacy(world, agent, "resources/subscribe", &uri(thread));
            assert_eq!(answer.body["result"], json!({}), "{:#}", answer.body);
        }
        let refused = legacy(world, agent, "resources/subscribe", &uri(last)).body["error"].take();
        assert_eq!(
            (&refused["code"], &refused["data"]["type"]),
            (&json!(409), &json!("/problems/wrong-state"))
        );
        let prolonged = legacy(world, agent, "resources/subscribe", &uri(&others[0]));
        assert_eq!(prolonged.body["result"], json!({}));
        let deaf = world.new_token(vec!["workspace:read"]);
        let refused = legacy(world, &deaf, "resources/subscribe", &uri(last)).body["error"].take();
        assert_eq!(refused["data"]["type"], "/problems/missing-capability", "{refused:#}");
        assert_eq!(world.database.number("select count(*) from resource_subscriptions"), 100);
        world.pass(DAY);
        assert_eq!(world.database.number("select count(*) from resource_subscriptions"), 0);
    });
}

#[test]
fn who_no_longer_sees_a_channel_is_told_that_the_list_has_changed() {
    on_both_engines(|world| {
        let open = world.new_channel("open");
        let closed = world.new_private_channel("closed");
        let mut events = Events::listen(world, &world.people.agent, &json!({"resourcesListChanged": true}));
        events.acknowledged();
        let member = json!({"channel_id": closed, "member_id": world.id("agent")});
        world.admin("add_channel_member", member.clone());
        let mut is_told = |why: &str| {
            let told = events.next().unwrap();
            assert_eq!(told["method"], "notifications/resources/list_changed", "{why}: {told:#}");
        };
        is_told("added");
        world.admin("remove_channel_member", member);
        is_told("removed");
        // An object that is hidden before and after does not change the list, and a token is not a channel.
        world.new_private_channel("hidden");
        world.new_token(vec!["workspace:read"]);
        world.admin("update_channel", json!({"channel_id": open, "private": true}));
        is_told("private");
        world.new_channel("other");
        is_told("created");
    });
}
