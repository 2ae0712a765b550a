//! Tests the notifications that a client receives over a pipe.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::{Database, OpenMode, Service, ServiceOptions};
use svc_mcp_stdio::tool_filter::ToolFilter;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Pipe of one client. Several clients use the same service.
struct Pipe {
    out: DuplexStream,
    lines: Lines<BufReader<DuplexStream>>,
    last_id: i64,
}

struct Home {
    _folder: tempfile::TempDir,
    service: Service,
    token: String,
    workspace: String,
}

impl Home {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = ServiceOptions {
            reap_tick: None,
            mode: OpenMode::Create,
            ..ServiceOptions::new(Database::Sqlite(folder.path().join("svc.db")), [7; 32])
        };
        let service = Service::with_options(options).unwrap();
        let made = service.establish("home", "ada").unwrap();
        let workspace = json!(made.workspace.id).as_str().unwrap().to_owned();
        Self { _folder: folder, service, token: made.agent_token.secret, workspace }
    }

    fn pipe(&self) -> Pipe {
        let (input, out) = tokio::io::duplex(1 << 20);
        let (lines, output) = tokio::io::duplex(1 << 20);
        let token = SecretString::from(self.token.as_str());
        let served =
            svc_mcp_stdio::serve(self.service.clone(), token, ToolFilter::default(), (input, output));
        tokio::spawn(served);
        Pipe { out, lines: BufReader::new(lines).lines(), last_id: 0 }
    }
}

impl Pipe {
    async fn send(&mut self, method: &str, params: Value) -> i64 {
        self.last_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        self.out.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        self.last_id
    }

    async fn read(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(30), self.lines.next_line()).await.unwrap();
        serde_json::from_str(&line.unwrap().unwrap()).unwrap()
    }

    /// Sends a request and returns its response; earlier notifications are dropped.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        loop {
            let message = self.read().await;
            if message["id"] == id {
                return message;
            }
        }
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        answer["result"]["structuredContent"].clone()
    }

    /// Returns the next notification, with its parameters.
    async fn told(&mut self) -> (String, Value) {
        let message = self.read().await;
        assert!(message.get("id").is_none(), "{message}");
        (message["method"].as_str().unwrap().to_owned(), message["params"].clone())
    }

    async fn initialize(&mut self) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        self.ask("initialize", params).await["result"].clone()
    }
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

/// Creates a channel and a thread in it, and returns their ids.
async fn work(pipe: &mut Pipe, workspace: &str) -> (String, String) {
    let channel = pipe.call("create_channel", json!({"workspace_id": workspace, "name": "work"})).await;
    let channel = channel["id"].as_str().unwrap().to_owned();
    let thread = pipe.call("create_thread", json!({"channel_id": channel, "title": "task"})).await;
    (channel, thread["id"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn capabilities_are_those_of_the_revision() {
    let home = Home::open();
    let mut pipe = home.pipe();
    let old = pipe.initialize().await;
    let common = json!({"tools": {}, "prompts": {}, "completions": {}, "logging": {}});
    let with = |resources: Value| {
        let mut all = common.clone();
        all["resources"] = resources;
        all
    };
    assert_eq!(old["capabilities"], with(json!({"subscribe": true, "listChanged": true})));
    let new = pipe.ask("server/discover", modern(json!({}))).await;
    assert_eq!(new["result"]["capabilities"], with(json!({"listChanged": true})));
}

#[tokio::test]
async fn a_connection_is_told_of_what_it_has_subscribed_to() {
    let home = Home::open();
    let mut pipe = home.pipe();
    let mut other = home.pipe();
    pipe.initialize().await;
    other.initialize().await;
    let (channel, thread) = work(&mut other, &home.workspace).await;
    let uri = format!("svc://threads/{thread}");
    assert_eq!(pipe.ask("resources/subscribe", json!({"uri": uri})).await["result"], json!({}));
    let post = json!({"thread_id": thread, "body": "hello"});
    other.call("post_message", post.clone()).await;
    assert_eq!(pipe.told().await, ("notifications/resources/updated".to_owned(), json!({"uri": uri})));
    other.call("create_channel", json!({"workspace_id": home.workspace, "name": "more"})).await;
    assert_eq!(pipe.told().await, ("notifications/resources/list_changed".to_owned(), json!({})));
    assert_eq!(pipe.ask("resources/unsubscribe", json!({"uri": uri})).await["result"], json!({}));
    other.call("post_message", post).await;
    other.call("set_channel_boot", json!({"channel_id": channel, "text": "hi"})).await;
    let (method, _) = pipe.told().await;
    assert_eq!(method, "notifications/resources/list_changed", "of the thread it is told no more");
    for uri in ["svc://threads/01990000-0000-7000-8000-0000000000ff", "svc://x"] {
        let refused = pipe.ask("resources/subscribe", json!({"uri": uri})).await;
        assert_eq!(
            (&refused["error"]["code"], &refused["error"]["data"]["uri"]),
            (&json!(-32002), &json!(uri))
        );
    }
    // A client without a subscription receives no notification.
    assert_eq!(other.ask("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn who_has_read_the_list_is_told_that_it_changes() {
    let home = Home::open();
    let mut pipe = home.pipe();
    let mut other = home.pipe();
    pipe.initialize().await;
    other.initialize().await;
    pipe.ask("resources/list", json!({})).await;
    work(&mut other, &home.workspace).await;
    assert_eq!(pipe.told().await.0, "notifications/resources/list_changed");
    // In the newest revision, a request contains a filter for its notifications.
    let mut modern_pipe = home.pipe();
    modern_pipe.ask("resources/list", modern(json!({}))).await;
    other.call("create_channel", json!({"workspace_id": home.workspace, "name": "more"})).await;
    assert_eq!(pipe.told().await.0, "notifications/resources/list_changed");
    let id = modern_pipe.send("server/discover", modern(json!({}))).await;
    assert_eq!(modern_pipe.read().await["id"], id, "nothing was said before");
}

#[tokio::test]
async fn a_listening_request_acknowledges_what_is_visible_and_marks_each_message() {
    let home = Home::open();
    let mut pipe = home.pipe();
    let mut other = home.pipe();
    other.initialize().await;
    let (channel, thread) = work(&mut other, &home.workspace).await;
    let seen = format!("svc://threads/{thread}");
    let boot = format!("svc://boots/{channel}");
    let wanted = json!({
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourcesListChanged": true,
        "resourceSubscriptions":
            [seen, boot, seen, "svc://threads/01990000-0000-7000-8000-0000000000ff", "https://x"],
    });
    let id = pipe.send("subscriptions/listen", modern(json!({"notifications": wanted}))).await;
    let meta = json!({SUBSCRIPTION_ID: id});
    let accepted = json!({"resourcesListChanged": true, "resourceSubscriptions": [seen, boot]});
    assert_eq!(
        pipe.told().await,
        (
            "notifications/subscriptions/acknowledged".to_owned(),
            json!({"notifications": accepted, "_meta": meta})
        )
    );
    other.call("set_channel_boot", json!({"channel_id": channel, "text": "hi"})).await;
    assert_eq!(
        pipe.told().await,
        ("notifications/resources/updated".to_owned(), json!({"uri": boot, "_meta": meta}))
    );
    assert_eq!(
        pipe.told().await,
        ("notifications/resources/list_changed".to_owned(), json!({"_meta": meta}))
    );
    for n in 0..20 {
        other.call("post_message", json!({"thread_id": thread, "body": format!("{n}")})).await;
    }
    let (_, params) = pipe.told().await;
    assert_eq!(params, json!({"uri": seen, "_meta": meta}));
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    pipe.out.write_all(format!("{cancel}\n").as_bytes()).await.unwrap();
    let mut repeated = 0;
    let id = pipe.send("server/discover", modern(json!({}))).await;
    while pipe.read().await["id"] != id {
        repeated += 1;
    }
    assert!(repeated < 19, "a resource is told of once in a while: {repeated}");
    // The second subscription contains no addresses, but is also acknowledged.
    let id = pipe.send("subscriptions/listen", modern(json!({"notifications": {}}))).await;
    let (_, params) = pipe.told().await;
    assert_eq!(params, json!({"notifications": {}, "_meta": {SUBSCRIPTION_ID: id}}));
}
