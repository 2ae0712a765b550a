//! The board over HTTP: its page and files, its redirects, and its names and prefixes.

use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, COOKIE, ETAG, LOCATION, SET_COOKIE, VARY};
use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::config::PublicUrl;
use svc_http::HttpSettings;
use svc_tests::client::Answer;
use svc_tests::client::rest::Rest;
use svc_tests::client::ws::{Received, Ws};
use svc_tests::database::{TestDatabase, engines};
use svc_tests::process::{RunningProgram, program, run};
use svc_tests::site::command;
use svc_tests::{Setup, World, on_both_engines, text};

/// The headers of the page, the files and their refusals.
const PROTECTION: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self'; \
         connect-src 'self'; worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types board",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

const A_BROWSER: (&str, &str) = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");

fn ask(world: &World, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let answer = world.rest().send(None, method, path, headers, None);
    for (name, value) in PROTECTION {
        assert_eq!(answer.headers[name], value, "{method} {path}: {name}");
    }
    answer
}

fn get(world: &World, path: &str, headers: &[(&str, &str)]) -> Answer {
    ask(world, "GET", path, headers)
}

/// Returns the addresses in a page, in their order.
fn addresses(page: &str) -> Vec<&str> {
    let named = page.split(['"', ' ', '>']).collect::<Vec<_>>();
    let values = named.windows(2).filter(|two| matches!(two[0], "href=" | "src=")).map(|two| two[1]);
    values.collect()
}

/// Returns the absolute form of a relative address in a page at `at`.
fn resolved(at: &str, address: &str) -> String {
    let mut folders: Vec<&str> = at.split('/').collect();
    folders.pop();
    for segment in address.split('/') {
        match segment {
            ".." => folders.truncate(folders.len().saturating_sub(1)),
            _ => folders.push(segment),
        }
    }
    folders.join("/")
}

#[test]
fn the_page_is_the_same_at_every_screen_and_its_files_are_found_from_there() {
    on_both_engines(|world| {
        let mut files = Vec::new();
        for at in ["/ui/", "/ui/board", "/ui/t/0190", "/ui/a/b/c/d/e"] {
            let page = get(world, at, &[("cookie", "svc_session=whatever"), ("authorization", "Bearer x")]);
            assert_eq!((page.status, &page.headers[CACHE_CONTROL]), (200, &"no-cache".parse().unwrap()));
            assert_eq!(page.headers[CONTENT_TYPE], "text/html; charset=utf-8");
            let body = text(&page.body);
            let found: Vec<String> = addresses(&body).iter().map(|address| resolved(at, address)).collect();
            assert_eq!(found.len(), 4, "{found:?}");
            files.push(found);
        }
        assert!(files.windows(2).all(|two| two[0] == two[1]), "{files:?}");
        for file in &files[0] {
            let answer = get(world, file, &[]);
            assert_eq!(answer.status, 200, "{file}");
            let is_own = file == "/ui/manifest.webmanifest";
            assert_eq!(file.starts_with("/ui/f/"), !is_own, "{file}");
            let cached = if is_own { "no-cache" } else { "public, max-age=31536000, immutable" };
            assert_eq!(answer.headers[CACHE_CONTROL], cached, "{file}");
        }
        let script = files[0].iter().find(|file| file.ends_with(".js")).unwrap();
        assert_eq!(get(world, script, &[]).headers[CONTENT_TYPE], "text/javascript; charset=utf-8");
        let main = text(&get(world, &script.replace("app.js", "main.js"), &[]).body);
        assert!(main.starts_with("export default{\"") && main.contains("\"/ws/subscribe\""));
    });
}

#[test]
fn what_a_browser_has_is_not_sent_again_and_a_head_has_no_body() {
    on_both_engines(|world| {
        let packed = ("accept-encoding", "gzip, br");
        let plain = get(world, "/ui/board", &[]);
        let plain_tag = plain.headers[ETAG].to_str().unwrap();
        let length = text(&plain.body).len();
        let small = world.rest().send(None, "HEAD", "/ui/board", &[packed], None);
        assert_eq!(
            (&small.headers[CONTENT_ENCODING], &small.headers[VARY]),
            (&"gzip".parse().unwrap(), &"accept-encoding".parse().unwrap())
        );
        let packed_length: usize = small.headers["content-length"].to_str().unwrap().parse().unwrap();
        assert!(packed_length < length, "{packed_length} of {length}");
        let packed_tag = small.headers[ETAG].to_str().unwrap();
        assert_ne!(packed_tag, plain_tag, "they are different bytes");
        for (tag, encoding) in [(plain_tag, "identity"), (packed_tag, "gzip")] {
            let headers = [("if-none-match", tag), ("accept-encoding", encoding)];
            for method in ["GET", "HEAD"] {
                let known = ask(world, method, "/ui/board", &headers);
                assert_eq!((known.status, &known.headers[ETAG]), (304, &tag.parse().unwrap()));
                assert!(text(&known.body).is_empty() && !known.headers.contains_key("content-length"));
            }
            let other = get(world, "/ui/t/x", &headers);
            assert_eq!(other.status, 200, "that page is another one");
        }
        let head = ask(world, "HEAD", "/ui/board", &[]);
        assert_eq!(head.headers["content-length"].to_str().unwrap(), length.to_string());
        assert!(text(&head.body).is_empty());
    });
}

#[test]
fn what_is_no_screen_and_no_file_is_not_found() {
    on_both_engines(|world| {
        let page = text(&get(world, "/ui/", &[]).body);
        let script =
            addresses(&page).into_iter().find(|address| address.ends_with(".js")).unwrap().to_owned();
        let digest = script.split('/').nth(1).unwrap();
        for path in [
            "/ui/app.js",
            "/ui/board.html",
            "/ui/a/b/c/d/e/f",
            "/ui/t/%2e%2e",
            "/ui/t%2Fx",
            "/ui/f/000000000000/app.js",
            &format!("/ui/f/{digest}/nothing.js"),
            &format!("/ui/f/{digest}/world.js"),
            &format!("/ui/f/{digest}/operations.js"),
            &format!("/ui/f/{digest}/css/base.css"),
            &format!("/ui/f/{digest}/index.html"),
            &format!("/ui/f/{digest}/manifest.webmanifest"),
            &format!("/ui/f/{digest}/strings/test.js"),
            &format!("/ui/f/{digest}/../index.html"),
            &format!("/ui/f/{digest}/%2e%2e/Cargo.toml"),
            &format!("/ui/f/{digest}/"),
        ] {
            get(world, path, &[]).refused(404, "not-found");
            let page = get(world, path, &[A_BROWSER]);
            assert_eq!(
                (page.status, &page.headers[CONTENT_TYPE]),
                (404, &"text/html; charset=utf-8".parse().unwrap())
            );
            assert!(text(&page.body).contains("<h1>"), "{path}: {}", page.body);
        }
        for path in ["/ui", "/ui/", "/ui/board", "/ui/approvals/x"] {
            let options = ask(world, "OPTIONS", path, &[]);
            assert_eq!(
                (options.status, &options.headers["allow"]),
                (204, &"GET, HEAD, OPTIONS".parse().unwrap())
            );
        }
        let posted = ask(world, "POST", "/ui/board", &[]);
        assert_eq!(posted.headers["allow"], "GET, HEAD, OPTIONS");
        posted.refused(405, "method-not-allowed");
    });
}

#[test]
fn a_browser_finds_the_board_from_the_root() {
    on_both_engines(|world| {
        for (path, headers) in [("/", &[A_BROWSER][..]), ("/ui", &[])] {
            let sent = get(world, path, headers);
            assert_eq!((sent.status, &sent.headers[LOCATION]), (303, &"ui/".parse().unwrap()), "{path}");
            let sent = get(world, &format!("{path}?workspace=w"), headers);
            assert_eq!(sent.headers[LOCATION], "ui/?workspace=w");
        }
        for accept in [&[][..], &[("accept", "application/json")], &[("accept", "*/*")]] {
            get(world, "/", accept).refused(404, "unknown-route");
        }
    });
}

/// A person whose browser cannot show a problem would not learn from it what the operator has to set.
#[test]
fn a_browser_that_calls_the_server_by_another_name_reads_what_to_set() {
    on_both_engines(|world| {
        for path in ["/", "/ui/", "/ui/t/x"] {
            let refused = get(world, path, &[("host", "board.example"), A_BROWSER]);
            assert_eq!(refused.status, 403, "{path}");
            assert_eq!(refused.headers[CONTENT_TYPE], "text/html; charset=utf-8");
            let page = text(&refused.body);
            assert!(page.contains("SVC_PUBLIC_URL") && page.contains("SVC_ALLOWED_HOSTS"), "{page}");
            assert!(!page.contains("<script") && !page.contains("board.example"), "{page}");
            get(world, path, &[("host", "board.example")]).refused(403, "forbidden");
        }
    });
}

fn behind_a_proxy(engine: Engine) -> World {
    let public_url = PublicUrl::parse("https://svc.example/team");
    World::with(
        engine,
        Setup { http: HttpSettings { public_url, ..HttpSettings::default() }, ..Setup::default() },
    )
}

#[test]
fn behind_a_proxy_the_public_address_is_the_servers_own() {
    for world in engines().into_iter().map(behind_a_proxy) {
        for host in ["svc.example", "localhost"] {
            for path in ["/", "/ui"] {
                let sent = get(&world, path, &[("host", host), A_BROWSER]);
                assert_eq!((sent.status, &sent.headers[LOCATION]), (303, &"/team/ui/".parse().unwrap()));
            }
            assert_eq!(get(&world, "/ui/", &[("host", host), A_BROWSER]).status, 200, "{host}");
        }
        let sign_in = |origin: &str| {
            let headers = [("origin", origin), ("host", "localhost:8080")];
            let body = json!({"token": world.people.agent});
            world.rest().send(None, "POST", "/auth/session/from-token", &headers, Some(&body))
        };
        sign_in("https://evil.example").refused(403, "forbidden");
        let signed_in = sign_in("https://svc.example");
        assert_eq!(signed_in.status, 200, "{:#}", signed_in.body);
        let cookie = signed_in.headers[SET_COOKIE].to_str().unwrap();
        assert!(cookie.contains("; Path=/team;"), "other services at the host do not get it: {cookie}");
        let cookie = cookie.split(';').next().unwrap();
        let headers = [(COOKIE.as_str(), cookie), ("origin", "https://svc.example")];
        let signed_out = world.rest().send(None, "POST", "/auth/logout", &headers, Some(&json!({})));
        let removed = signed_out.headers[SET_COOKIE].to_str().unwrap();
        assert!(removed.starts_with("svc_session=; Path=/team; Max-Age=0"), "{removed}");
        let signed_in = sign_in("https://svc.example");
        let cookie = signed_in.headers[SET_COOKIE].to_str().unwrap().split(';').next().unwrap();
        // A browser sends no Sec-Fetch-Site with the handshake, and the proxy has set its own Host.
        let open = |origin: &str| {
            let first = json!({"filter": {"workspace_id": world.id("workspace")}});
            let headers = [(COOKIE.as_str(), cookie), ("origin", origin)];
            Ws::subscribe_with(world.address(), &headers, &first).receive()
        };
        assert!(matches!(open("https://svc.example"), Received::Frame(_)));
        for foreign in ["http://svc.example", "https://evil.example"] {
            assert_eq!(open(foreign), Received::Closed(1008), "{foreign}");
        }
    }
}

/// Returns the secret in a link, which leads to the board of this address.
fn secret_in<'l>(link: &'l str, service: &str) -> &'l str {
    let secret = link.strip_prefix(service).and_then(|rest| rest.strip_prefix("/ui/#"));
    secret.filter(|secret| secret.starts_with("svc_")).unwrap_or_else(|| panic!("{link}"))
}

#[test]
fn the_programs_print_links_that_sign_in() {
    const LISTENS: &str = "http://127.0.0.1:8080";
    for engine in engines() {
        let database = TestDatabase::on(engine);
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let run_ours = |name: &str, arguments: &[&str]| {
            let mut ours = command(program(name), arguments, &database);
            ours.arg("--data").arg(&data);
            ours
        };
        let mut server =
            RunningProgram::start(&mut run_ours("svc-http", &["--dev", "--listen", "127.0.0.1:0"]));
        let listens = server.next_line().trim_start_matches("listening on ").to_owned();
        let first = server.next_line();
        let first = secret_in(first.strip_prefix("board ").unwrap(), &listens).to_owned();
        let mint = ["token", "mint", "--as-instance", "--link", "--member", "admin"];
        let minted = run(&mut run_ours("svc", &mint));
        let minted = secret_in(minted.out.trim_end(), &listens).to_owned();
        let outside = run(run_ours("svc", &[&mint[..], &["--json"]].concat())
            .env("SVC_PUBLIC_URL", "https://svc.example/team"));
        let outside: Value = serde_json::from_str(&outside.out).unwrap();
        let third = secret_in(outside["link"].as_str().unwrap(), "https://svc.example/team");
        assert!(outside.get("secret").is_none(), "the link is in its place: {outside}");
        let rest = Rest { address: listens.trim_start_matches("http://").parse().unwrap() };
        for secret in [&first, &minted, third] {
            let body = json!({"token": secret});
            let signed_in = rest.send(None, "POST", "/auth/session/from-token", &[], Some(&body));
            assert_eq!(signed_in.status, 200, "{:#}", signed_in.body);
        }
        server.end();
        let idle = run(&mut run_ours("svc", &mint));
        secret_in(idle.out.trim_end(), LISTENS);
        let mut again =
            RunningProgram::start(&mut run_ours("svc-http", &["--dev", "--listen", "127.0.0.1:0"]));
        let listens = again.next_line().trim_start_matches("listening on ").to_owned();
        assert_eq!(again.next_line(), format!("board {listens}/ui/"));

        let other = TestDatabase::on(engine);
        let mut init = command(program("svc"), &["init", "--json"], &other);
        let made = run(init.arg("--data").arg(folder.path().join("other")));
        let made: Value = serde_json::from_str(&made.out).unwrap();
        assert_eq!(json!(secret_in(made["board"].as_str().unwrap(), LISTENS)), made["token"]["secret"]);
    }
}
