//! Origins: the pages that may use a token, over REST, MCP and a WebSocket; no foreign page may use only a
//! cookie.

use http::header::COOKIE;
use serde_json::json;
use svc_core::Engine;
use svc_tests::World;
use svc_tests::client::Answer;
use svc_tests::client::ws::{Received, Ws, first_frame};

/// The origin of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// This server, by one of its own names.
    Own,
    /// This machine, or a program: a token is accepted.
    Near,
    /// Another site.
    Foreign,
}

const ORIGINS: [(&str, Page); 26] = [
    ("http://localhost:3000", Page::Own),
    ("https://localhost", Page::Own),
    ("http://127.0.0.1:5173", Page::Own),
    ("http://[::1]:8080", Page::Own),
    ("http://LOCALHOST:1", Page::Own),
    ("null", Page::Near),
    ("http://app.localhost:5173", Page::Near),
    ("https://a.b.localhost", Page::Near),
    ("http://tauri.localhost", Page::Near),
    ("tauri://localhost", Page::Own),
    ("vscode-webview://1ab2c3", Page::Near),
    ("vscode-file://vscode-app", Page::Near),
    ("chrome-extension://abcdefghijklmnop", Page::Near),
    ("moz-extension://01990000-0000-7000-8000-000000000001", Page::Near),
    ("safari-web-extension://0199", Page::Near),
    ("app://obsidian.md", Page::Near),
    ("capacitor://localhost", Page::Own),
    ("file://", Page::Near),
    ("http://evil.example", Page::Foreign),
    ("https://evil.example:8443", Page::Foreign),
    ("HTTPS://evil.example", Page::Foreign),
    ("http://localhost.evil.example", Page::Foreign),
    ("http://evillocalhost", Page::Foreign),
    ("http://app.localhost.", Page::Foreign),
    ("http:evil.example", Page::Foreign),
    ("evil.example", Page::Foreign),
];

/// Returns the statuses of a request with these headers to REST and to MCP.
fn statuses(world: &World, token: Option<&str>, headers: &[(&str, &str)]) -> (u16, u16) {
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let rest = world.rest().send(token, "GET", "/me", headers, None);
    let accept = [("accept", "application/json")];
    let mcp = world.rest().send(token, "POST", "/mcp", &[&accept, headers].concat(), Some(&ping));
    let allows =
        |answer: &Answer| answer.headers.keys().any(|name| name.as_str().starts_with("access-control"));
    assert!(!allows(&rest) && !allows(&mcp), "{headers:?}: a CORS header");
    (rest.status, mcp.status)
}

#[test]
fn pages_of_programs_and_of_this_machine_may_bring_a_token_and_no_cookie() {
    let world = World::open(Engine::Sqlite);
    let agent = world.people.agent.as_str();
    let workspace = world.id("workspace");
    let session = world.sign_in(agent);
    let cookie = format!("svc_session={}", svc_tests::session_key().cookie(session));
    for (origin, page) in ORIGINS {
        let headers = [("origin", origin)];
        let with_cookie = [("origin", origin), (COOKIE.as_str(), cookie.as_str())];
        let mcp = if page == Page::Foreign { 403 } else { 200 };
        assert_eq!(statuses(&world, Some(agent), &headers), (200, mcp), "{origin}, with a token");
        assert_eq!(statuses(&world, Some(agent), &with_cookie).0, 200, "{origin}, with a token and a cookie");
        let without_token = (401, if page == Page::Own { 401 } else { 403 });
        for headers in [&headers[..], &with_cookie] {
            assert_eq!(statuses(&world, None, headers), without_token, "{origin}, without a token");
        }
        let socket = |headers: &[(&str, &str)], token: Option<&str>| {
            let mut first = first_frame("", workspace, None);
            first["token"] = json!(token);
            let mut socket = Ws::try_connect(world.address(), headers)?;
            socket.say(&first);
            Ok(socket.receive())
        };
        match socket(&headers, Some(agent)) {
            Ok(Received::Frame(frame)) => assert_eq!(
                (&frame["type"], page != Page::Foreign),
                (&json!("subscribe_ack"), true),
                "{origin}"
            ),
            refused => assert_eq!((refused, page), (Err(403), Page::Foreign), "{origin}"),
        }
        let nothing = if page == Page::Foreign { Err(403) } else { Ok(Received::Closed(1008)) };
        assert_eq!(socket(&headers, None), nothing, "{origin}, without a token");
        assert_eq!(socket(&with_cookie, None), Ok(Received::Closed(1008)), "{origin}, with a cookie alone");
        if page == Page::Foreign {
            let both = socket(&with_cookie, Some(agent));
            assert_eq!(both, Ok(Received::Closed(1008)), "{origin}, a page of another site");
        }
    }
}
