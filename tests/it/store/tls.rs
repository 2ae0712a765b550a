//! TLS to Postgres: the effect of each parameter of the address, on every connection of a server.

use serde_json::json;
use svc_core::Engine;
use svc_tests::database::engines;
use svc_tests::ordeal::tls::TlsServer;
use svc_tests::process::{ExitedProgram, run};
use svc_tests::site::Site;

fn verify(site: &Site, url: &str) -> ExitedProgram {
    run(site.command("svc", &["verify"]).env("DATABASE_URL", url))
}

#[test]
fn an_address_connects_to_the_server_that_it_describes_and_to_no_other() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let site = Site::found(Engine::Postgres);
    let server = TlsServer::start(&site.database.url(), "localhost", false);
    let roots = server.file("roots.pem");
    let others = server.file("others.pem");
    for (mode, roots, host, connects) in [
        ("prefer", None, "localhost", true),
        ("require", None, "127.0.0.1", true),
        ("require", Some(&*roots), "127.0.0.1", true),
        ("require", Some(&*others), "localhost", false),
        ("verify-ca", Some(&*roots), "127.0.0.1", true),
        ("verify-ca", Some(&*others), "127.0.0.1", false),
        ("verify-full", Some(&*roots), "localhost", true),
        ("verify-full", Some(&*roots), "127.0.0.1", false),
        ("verify-full", Some(&*others), "localhost", false),
        ("verify-full", Some("system"), "localhost", false),
    ] {
        let roots = roots.map(|file| format!("&sslrootcert={file}")).unwrap_or_default();
        let outcome = verify(&site, &server.url(host, &format!("sslmode={mode}{roots}")));
        assert_eq!(outcome.code == Some(0), connects, "{mode} {roots} {host}: {outcome:?}");
        assert_eq!(connects, !outcome.err.contains("certificate"), "{mode} {roots} {host}: {outcome:?}");
    }
    assert!(verify(&site, &server.url("localhost", "")).code == Some(0), "TLS where the server has it");
    for (query, connects) in [
        (format!("sslrootcert={roots}"), true),
        (format!("sslrootcert={others}"), false),
        ("sslmode=require&ssl_min_protocol_version=TLSv1.3".to_owned(), true),
        ("sslmode=require&ssl_max_protocol_version=TLSv1.2".to_owned(), true),
        (format!("sslmode=verify-full&sslrootcert={roots}&ssl_max_protocol_version=TLSv1.2"), true),
        (format!("sslmode=verify-full&sslrootcert={roots}&sslsni=0"), true),
    ] {
        let outcome = verify(&site, &server.url("localhost", &query));
        assert_eq!(outcome.code == Some(0), connects, "{query}: {outcome:?}");
    }
    assert_eq!(server.direct(), 0);
    let outcome = verify(&site, &server.url("localhost", "sslmode=require&sslnegotiation=direct"));
    assert!(outcome.code == Some(0) && server.direct() > 0, "{outcome:?}");
    let (encrypted, plain) = server.counts();
    assert!(encrypted > 0 && plain == 0, "{encrypted} {plain}");
    assert_ne!(verify(&site, &server.url("localhost", "sslmode=disable")).code, Some(0));
    assert!(server.counts().1 > 0, "it has tried without");
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_the_one_of_the_address() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let site = Site::found(Engine::Postgres);
    let server = TlsServer::start(&site.database.url(), "localhost", true);
    let roots = server.file("roots.pem");
    let url = |more: &str| server.url("localhost", &format!("sslmode=verify-full&sslrootcert={roots}{more}"));
    let with = |who: &str| {
        let certificate = server.file(&format!("{who}.crt"));
        let key = server.file(&format!("{who}.key"));
        url(&format!("&sslcert={certificate}&sslkey={key}"))
    };
    assert_ne!(verify(&site, &url("")).code, Some(0));
    assert_ne!(verify(&site, &with("stranger")).code, Some(0));
    // Readers, writers and the listener of a server, and its periodic work.
    let outcome = verify(&site, &with("client"));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let before = server.counts();
    // A share of this limit, which is reported to other servers, is one request.
    let running = site.serve(&[("DATABASE_URL", &with("client")), ("SVC_RATE_LIMIT_MAX", "20")]);
    let channel = json!({"name": "encrypted"});
    let path = format!("/workspaces/{}/channels", site.founders.workspace_id);
    let made = running.rest.send(Some(&site.founders.admin), "POST", &path, &[], Some(&channel));
    assert_eq!(made.status, 201, "{made:?}");
    let ready = running.rest.send(None, "GET", "/health/ready", &[], None);
    assert_eq!(ready.status, 200, "{ready:?}");
    let (encrypted, plain) = server.counts();
    assert!(encrypted >= before.0 + 4, "{encrypted} of {before:?}");
    assert_eq!(plain, before.1, "none was opened without");
    // By name: the server knows the purpose of each connection, and each of them has come over TLS.
    let listeners = "select count(*) from pg_stat_activity where datname = current_database()
                     and application_name = 'svc' and query = 'listen svc_log'";
    assert_eq!(site.database.number(listeners), 1, "the server's listener");
    for (who, sent) in [
        ("the listener", "listen svc_log"),
        ("a reader", "read only"),
        ("a writer", "insert into channels"),
        ("the limits", "rate_windows"),
    ] {
        assert!(server.has_received(sent), "{who} has sent nothing over TLS");
    }
    assert!(!server.has_received("insert into nothing"), "a control");
}

#[test]
fn production_asks_for_a_word_about_tls() {
    let site = Site::found(Engine::Sqlite);
    let start = |url: &str| {
        let mut command = site.command("svc-http", &["--listen", "127.0.0.1:0"]);
        let outcome = run(command.env("DATABASE_URL", url).env("SVC_ENV", "production"));
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
        outcome.err
    };
    for (query, is_word) in [
        ("", false),
        ("sslrootcert=/etc/ca.pem&", false),
        ("sslmode=require&", true),
        ("sslmode=allow&", true),
        ("sslrootcert=system&", true),
    ] {
        let refused = start(&format!("postgres://svc@database.invalid/svc?{query}connect_timeout=1"));
        assert_eq!(!refused.contains("has no sslmode"), is_word, "{query}: {refused}");
    }
}
