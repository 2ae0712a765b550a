//! Attacks over the wire on the real server with its default limits.
//!
//! During the attack a caller at another address is served as usual, and afterwards everything is as before.

use std::future::pending;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::arena::{Arena, Caller, endures, keep_at};
use futures_util::future::join_all;
use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::client::mcp::Mcp;
use svc_tests::client::rest::Rest;
use svc_tests::client::ws::{Ws, first_frame};
use svc_tests::process::until;
use svc_tests::runtime;
use svc_tests::site::Site;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Returns a WebSocket frame as clients send it.
fn client_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let length = match u8::try_from(payload.len()) {
        Ok(length) if length < 126 => vec![0x80 | length],
        _ => [&[0x80 | 126][..], &u16::try_from(payload.len()).unwrap().to_be_bytes()].concat(),
    };
    // A mask of zeros leaves the payload as it is.
    [&[0x80 | opcode][..], &length, &[0; 4], payload].concat()
}

#[test]
fn a_flood_of_pings_that_reads_nothing() {
    let arena = Arena::open();
    let handshake = arena.head(
        "GET",
        "/ws/subscribe",
        "Connection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    );
    let founders = &arena.site.founders;
    let hello = json!({"token": founders.agent, "filter": {"workspace_id": founders.workspace_id}});
    let pings = client_frame(9, &[7; 125]).repeat(500);
    let flood = async |first: &[u8]| {
        let Ok(mut stream) = arena.connect().await else { return };
        let begun = [handshake.as_bytes(), first].concat();
        if stream.write_all(&begun).await.is_ok() {
            while stream.write_all(&pings).await.is_ok() {}
        }
    };
    let first = client_frame(1, hello.to_string().as_bytes());
    endures("pings", &arena, async |in_full_swing| {
        in_full_swing.give();
        tokio::join!(keep_at(1, async || flood(&[]).await), keep_at(1, async || flood(&first).await));
    });
}

#[test]
fn bodies_that_are_never_finished() {
    let arena = Arena::open();
    let unfinished = |credential: &str| {
        let more = format!("{credential}Content-Type: application/json\r\nContent-Length: 2000000\r\n");
        format!("{}{{", arena.head("POST", "/workspaces/x/channels", &more))
    };
    let strangers = unfinished("");
    let members = unfinished(&format!("Authorization: Bearer {}\r\n", arena.site.founders.agent));
    endures("unfinished bodies", &arena, async |in_full_swing| {
        let hold = async |head: &str| {
            let mut stream = arena.connect().await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            stream
        };
        let _of_strangers = join_all((0..800).map(|_| hold(&strangers))).await;
        let _of_members = join_all((0..800).map(|_| hold(&members))).await;
        in_full_swing.give();
        pending().await
    });
}

#[test]
fn a_query_of_thousands_of_names() {
    let arena = Arena::open();
    let names: Vec<String> = (0..12_000).map(|number| format!("{number:x}")).collect();
    let more = format!("Authorization: Bearer {}\r\n", arena.site.founders.agent);
    let requests = ["", &more].map(|more| arena.head("GET", &format!("/me?{}", names.join("&")), more));
    endures("names", &arena, async |in_full_swing| {
        let [stranger, member] = &requests;
        let ask = async |request: &str| {
            arena.status(request.as_bytes()).await;
        };
        in_full_swing.give();
        tokio::join!(keep_at(1, async || ask(stranger).await), keep_at(1, async || ask(member).await),);
    });
}

#[test]
fn responses_that_nobody_reads() {
    let arena = Arena::open();
    let workspace = &arena.site.founders.workspace_id;
    let agent = arena.server.caller(&arena.site.founders.agent);
    let channel = arena
        .server
        .caller(arena.admin())
        .post(&format!("/workspaces/{workspace}/channels"), json!({"name": "large"}));
    let path =
        |of: &Value, rest: &str| format!("/{rest}", rest = rest.replace("{}", of["id"].as_str().unwrap()));
    let thread = agent.post(&path(&channel, "channels/{}/threads"), json!({"title": "long"}));
    let messages = path(&thread, "threads/{}/messages");
    let body = "\u{1f600}".repeat(90_000);
    (0..24).for_each(|_| drop(agent.post(&messages, json!({"body": body}))));
    let credential = format!("Authorization: Bearer {}\r\n", arena.site.founders.agent);
    let page = arena.head("GET", &format!("{messages}?limit=500"), &credential);
    let list = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
    let batch = Value::from((0..100).map(list).collect::<Vec<_>>()).to_string();
    let batch = arena.post("/mcp", &arena.site.founders.agent, &batch);
    endures("unread answers", &arena, async |in_full_swing| {
        let hold = async |request: &str| {
            let mut stream = arena.connect().await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            stream
        };
        let _pages = join_all((0..120).map(|_| hold(&page))).await;
        let _batches = join_all((0..8).map(|_| hold(&batch))).await;
        in_full_swing.give();
        pending().await
    });
}

#[test]
fn batches_of_waits() {
    let arena = Arena::open();
    let tokens: Vec<String> = (0..4).map(|number| arena.new_agent(&format!("agent-{number}"))).collect();
    let wait = |id: usize| {
        let workspace = &arena.site.founders.workspace_id;
        let arguments = json!({"workspace_id": workspace, "after_id": 1_000_000, "timeout_secs": 330});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
               "params": {"name": "wait_for_event", "arguments": arguments}})
    };
    let batch = Value::from((0..3).map(wait).collect::<Vec<_>>()).to_string();
    endures("batches of waits", &arena, async |in_full_swing| {
        let hold = async |token: &str| {
            let mut stream = arena.connect().await.unwrap();
            stream.write_all(arena.post("/mcp", token, &batch).as_bytes()).await.unwrap();
            stream
        };
        let mut held = Vec::new();
        for token in &tokens {
            held.extend(join_all((0..270).map(|_| hold(token))).await);
        }
        in_full_swing.give();
        pending().await
    });
}

#[test]
fn heads_that_never_end() {
    let arena = Arena::open();
    let field = format!("x-{}: {}\r\n", "n".repeat(100), "v".repeat(4000));
    let head = format!("GET /me HTTP/1.1\r\nHost: {}\r\n{}", arena.address(), field.repeat(95));
    endures("endless heads", &arena, async |in_full_swing| {
        let hold = async || {
            let mut stream = arena.connect().await.ok()?;
            // It is disconnected once it has sent more than the maximum size of a head.
            let _ = timeout(Duration::from_secs(2), stream.write_all(head.as_bytes())).await;
            Some(stream)
        };
        let mut held = Vec::new();
        for _ in 0..25 {
            held.extend(join_all((0..100).map(|_| hold())).await);
        }
        in_full_swing.give();
        pending().await
    });
}

#[test]
fn one_address_cannot_have_all_connections() {
    let arena = Arena::with(&[("SVC_MAX_CONNECTIONS", "1000")]);
    let request = arena.head("GET", "/health/live", "");
    let (held, refused) = runtime().block_on(async {
        let mut held = Vec::new();
        loop {
            let mut stream = arena.connect().await.unwrap();
            // The server may reject the client before it can send anything.
            let _ = stream.write_all(request.as_bytes()).await;
            let mut received = [0; 12];
            match stream.read_exact(&mut received).await {
                Ok(_) if received == *b"HTTP/1.1 200" => held.push(stream),
                Ok(_) => return (held, String::from_utf8_lossy(&received).into_owned()),
                Err(error) => return (held, error.to_string()),
            }
        }
    });
    assert_eq!(held.len(), 100, "{refused}");
    let mut caller = Caller::of(&arena);
    caller.ask();
    drop(held);
    until("its slots are free again", || runtime().block_on(arena.status(request.as_bytes())) == Some(200));
}

#[test]
fn a_burst_of_connections_is_accepted() {
    let arena = Arena::open();
    arena.server.running.pause();
    let connected = runtime().block_on(async {
        let all = join_all((0..1000).map(|_| timeout(Duration::from_secs(20), arena.connect()))).await;
        all.into_iter().filter(|one| matches!(one, Ok(Ok(_)))).count()
    });
    arena.server.running.resume();
    assert_eq!(connected, 1000, "the system keeps them until they are accepted");
}

#[test]
fn a_rejection_is_cheap_whatever_is_rejected() {
    const TIMES: usize = 200;
    let arena = Arena::open();
    let names = (0..12_000).map(|number| format!("{number:x}")).collect::<Vec<_>>().join("&");
    let json = "Content-Type: application/json\r\n";
    let body: String = (0..100_000).map(|number| format!("\"{number:x}\":0,")).collect();
    let body = format!("{{{body}\"z\":0}}");
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(900_000), "]".repeat(900_000));
    let long = format!("{{\"{}\":0}}", "n".repeat(1_900_000));
    let with_body = |body: &str| {
        let more = format!("{json}Expect: 100-continue\r\nContent-Length: {}\r\n", body.len());
        arena.head("POST", "/workspaces/x/channels", &more)
    };
    let cases = [
        ("a query of many names", arena.head("GET", &format!("/me?{names}"), "")),
        (
            "a long token",
            arena.head("GET", "/me", &format!("Authorization: Bearer {}\r\n", "t".repeat(8000))),
        ),
        ("a long path", arena.head("GET", &format!("/threads/{}", "%41".repeat(2000)), "")),
        ("a body of many members", with_body(&body)),
        ("a deep body", with_body(&deep)),
        ("a body with a long name", with_body(&long)),
    ];
    let cost = |request: &str| {
        let before = arena.ticks();
        runtime().block_on(async {
            for _ in 0..TIMES {
                let status = arena.status(request.as_bytes()).await.unwrap();
                assert!((400..500).contains(&status), "{status}");
            }
        });
        (arena.ticks() - before).max(1)
    };
    let empty = cost(&arena.head("GET", "/me", ""));
    for (name, request) in cases {
        let ticks = cost(&request);
        println!("{TIMES} times {name}: {ticks} ticks; empty: {empty}");
        assert!(ticks <= empty.max(5) * 10, "{name}: {ticks} ticks, {empty} for nothing");
    }
}

#[test]
fn a_request_in_flight_takes_a_slot() {
    let site = Site::found(Engine::Sqlite);
    let server = site.serve(&[("SVC_MAX_CONCURRENT_REQUESTS", "1")]);
    let admin = server.caller(&site.founders.admin);
    let lock = rusqlite::Connection::open(site.database.file().unwrap()).unwrap();
    std::thread::scope(|scope| {
        lock.execute_batch("begin immediate").unwrap();
        let path = format!("/workspaces/{}/channels", site.founders.workspace_id);
        // It may be rejected while one of the requests below is in flight, and is retried.
        let held = scope.spawn(move || {
            until("it is accepted", || admin.ask("POST", &path, Some(&json!({"name": "one"}))).status != 503);
        });
        until("the request is in flight", || admin.ask("GET", "/me", None).status == 503);
        admin.ask("GET", "/me", None).refused(503, "overloaded");
        assert_eq!(admin.ask("GET", "/health/live", None).status, 200);
        lock.execute_batch("rollback").unwrap();
        held.join().unwrap();
    });
    assert_eq!(admin.ask("GET", "/me", None).status, 200);
}

#[test]
fn no_level_of_the_log_shows_a_token() {
    let site = Site::found(Engine::Sqlite);
    let server = site.serve(&[("SVC_LOG", "trace,tungstenite=trace,rmcp=trace,log=trace")]);
    let token = &site.founders.agent;
    let mut ws = Ws::subscribe(server.address(), &first_frame(token, &site.founders.workspace_id, None));
    ws.frame();
    let arguments = json!({"capabilities": ["workspace:read"], "label": "narrow"});
    let params = json!({"name": "attenuate_token", "arguments": arguments});
    let made = Mcp { http: server.rest }.request(Some(token), "tools/call", params);
    let secret = svc_tests::text(&made.body["result"]["structuredContent"]["secret"]);
    drop(ws);
    // The HTTP library logs its actions, but no message.
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(preface).unwrap();
    stream.read_exact(&mut [0; 9]).unwrap();
    drop(stream);
    let mut running = server.running;
    running.end();
    let log = running.err.whole();
    assert!(log.contains("TRACE h2"), "{log:.1000}");
    for secret in [token, &secret] {
        let line = log.lines().find(|line| line.contains(secret.as_str()));
        assert!(line.is_none(), "{line:?}");
    }
}

/// Maximum growth of the server's memory by calls. Without a limit, these would take thousands of MiB.
const GROWTH_MAX_KIB: u64 = 192 << 10;

#[test]
fn calls_that_return_many_small_values() {
    const CALLS: usize = 40;
    let arena = Arena::open();
    let workspace = &arena.site.founders.workspace_id;
    let channels = format!("/workspaces/{workspace}/channels");
    let channel = arena.server.caller(arena.admin()).post(&channels, json!({"name": "numbers"}));
    let agent = arena.server.caller(&arena.site.founders.agent);
    let path = |of: &Value, rest: &str| rest.replace("{}", of["id"].as_str().unwrap());
    let thread = agent.post(&path(&channel, "/channels/{}/threads"), json!({"title": "numbers"}));
    let post = json!({"body": "many", "metadata": {"n": vec![0; 130_000]}});
    (0..4).for_each(|_| drop(agent.post(&path(&thread, "/threads/{}/messages"), post.clone())));
    let params = json!({"name": "list_messages", "arguments": {"thread_id": thread["id"]}});
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let list = arena.post("/mcp", &arena.site.founders.agent, &list);
    let idle = arena.memory("VmRSS");
    runtime().block_on(async {
        let all = (0..CALLS).map(|_| timeout(Duration::from_secs(60), arena.status(list.as_bytes())));
        let received = join_all(all).await;
        let answered = received.iter().filter(|status| matches!(status, Ok(Some(200)))).count();
        println!("{answered} of {CALLS} answered; {} MiB, peak {}", idle >> 10, arena.memory("VmHWM") >> 10);
        assert_eq!(answered, CALLS);
    });
    let growth = arena.memory("VmHWM").saturating_sub(idle);
    assert!(growth < GROWTH_MAX_KIB, "the server grew by {growth} KiB");
    arena.leaves_nothing();
}

#[test]
fn a_client_that_disconnects_is_no_error() {
    let site = Site::found(Engine::Sqlite);
    let server = site.serve(&[("SVC_LOG", "error")]);
    let arguments = json!({"workspace_id": site.founders.workspace_id, "after_id": 1, "kind": "Nothing"});
    let params = json!({"name": "wait_for_event", "arguments": arguments});
    let wait = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let send = Rest { address: server.address() };
    runtime().block_on(async {
        let body = Some(wait.to_string().into());
        let waiting = send.raw(Some(&site.founders.agent), "POST", "/mcp", &[], body);
        assert!(timeout(Duration::from_millis(500), waiting).await.is_err(), "it waits");
    });
    let mut running = server.running;
    running.end();
    let log = running.err.whole();
    assert!(!log.contains("ERROR"), "{log}");
}
