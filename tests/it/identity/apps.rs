//! Apps: their installation, their tokens, and the end of everything with the installation.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CACHE_CONTROL, PRAGMA, WWW_AUTHENTICATE};
use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::limits::{APP_TOKEN_SECS, INSTALLATION_TOKENS_MAX};
use svc_core::op::Credential;
use svc_tests::client::Answer;
use svc_tests::client::ws::{Received, Ws, first_frame};
use svc_tests::{World, answer_of, call, on_both_engines, text};

const TOKEN: &str = "/oauth/app/token";

/// Returns an input about the world's workspace, with these fields.
fn of_workspace(world: &World, fields: Value) -> Value {
    let mut input = json!({"workspace_id": world.id("workspace")});
    input.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    input
}

fn new_app(world: &World, slug: &str) -> String {
    text(&world.admin("create_app", of_workspace(world, json!({"slug": slug, "name": "An app"})))["id"])
}

fn try_to_install(world: &World, token: &str, app: &str, granted: &[&str]) -> Answer {
    let input = json!({"app_id": app, "granted_capabilities": granted});
    world.call(token, "install_app", of_workspace(world, input))
}

fn install(world: &World, app: &str, granted: &[&str]) -> Value {
    try_to_install(world, &world.people.admin, app, granted).output()
}

fn try_to_mint(world: &World, token: &str, installation: &Value, capabilities: &[&str]) -> Answer {
    let input = json!({"installation_id": installation["id"], "label": "x", "capabilities": capabilities});
    world.call(token, "mint_app_token", of_workspace(world, input))
}

fn revoke(world: &World, installation: &Value) -> Value {
    let input = json!({"installation_id": installation["id"]});
    world.admin("revoke_app_installation", of_workspace(world, input))
}

/// Requests a token over HTTP, with these parameters beside those of the installation.
fn ask(world: &World, installation: &Value, changes: Value) -> Answer {
    let mut body = json!({
        "grant_type": "client_credentials", "client_id": installation["client_id"],
        "client_secret": installation["client_secret"],
    });
    body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    world.rest().send(None, "POST", TOKEN, &[], Some(&body))
}

fn access(world: &World, installation: &Value) -> String {
    text(&ask(world, installation, json!({})).output()["access_token"])
}

fn works(world: &World, secret: &str) -> bool {
    world.call(secret, "whoami", json!({})).is_success()
}

#[test]
fn an_app_is_created_installed_listed_and_revoked() {
    on_both_engines(|world| {
        let app = new_app(world, "Builds");
        let listed = world.admin("list_apps", of_workspace(world, json!({})));
        assert_eq!(listed["items"].as_array().unwrap().last().unwrap()["slug"], "builds");
        let again = of_workspace(world, json!({"slug": "builds", "name": "Another"}));
        world.call(&world.people.admin, "create_app", again).refused(409, "name-taken");

        let lsn = world.lsn();
        let installed = install(world, &app, &["workspace:read", "message:post"]);
        assert_eq!(world.kinds_after(lsn), ["MemberCreated", "AppInstalled"]);
        assert_eq!(
            (&installed["client_id"], &installed["bot_member_reused"]),
            (&installed["id"], &json!(false))
        );
        let bot = world.admin("get_member", json!({"member_id": installed["bot_member_id"]}));
        assert_eq!((&bot["handle"], &bot["kind"]), (&json!("app:builds"), &json!("agent")));
        try_to_install(world, &world.people.admin, &app, &["workspace:read"]).refused(409, "wrong-state");
        let audit = of_workspace(world, json!({"action": "app_installation.install", "limit": 1}));
        let row = world.admin("list_audit", audit.clone())["items"][0].clone();
        assert_eq!(row["metadata"]["bot_member_reused"], json!(false), "{row:#}");

        let lsn = world.lsn();
        let revoked = revoke(world, &installed);
        assert_eq!(world.kinds_after(lsn), ["AppUninstalled"]);
        world.pass(Duration::from_secs(1));
        assert_eq!(revoke(world, &installed)["revoked_at"], revoked["revoked_at"]);
        assert_eq!(world.kinds_after(lsn).len(), 1, "a second revocation changes nothing");
        try_to_mint(world, &world.people.admin, &installed, &["workspace:read"]).refused(409, "wrong-state");

        let second = install(world, &app, &["workspace:read"]);
        assert_eq!(second["bot_member_id"], installed["bot_member_id"]);
        assert_eq!(second["bot_member_reused"], json!(true));
        assert_eq!(
            world.admin("list_audit", audit)["items"][0]["metadata"]["bot_member_reused"],
            json!(true)
        );
        let listed = world.admin("list_app_installations", of_workspace(world, json!({})));
        let listed: Vec<&Value> =
            listed["items"].as_array().unwrap().iter().filter(|item| item["app_id"] == json!(app)).collect();
        assert_eq!(listed.len(), 2);
        assert_eq!(
            (&listed[0]["revoked_at"], &listed[1]["revoked_at"]),
            (&revoked["revoked_at"], &Value::Null)
        );
        assert!(listed.iter().all(|item| !item.to_string().contains("secret")), "{listed:#?}");
    });
}

#[test]
fn an_app_holds_only_what_its_administrator_holds_and_never_approves() {
    on_both_engines(|world| {
        let app = new_app(world, "modest");
        let narrow = world.new_token(vec!["token:admin", "workspace:read"]);
        let before = format!("{:?}", world.database.dump());
        let admin = &world.people.admin;
        for (by, granted, (status, code)) in [
            (admin, &["approval:grant"][..], (400, "malformed-request")),
            (admin, &[], (400, "malformed-request")),
            (&narrow, &["message:post"], (403, "forbidden")),
            (&world.people.agent, &["workspace:read"], (403, "missing-capability")),
        ] {
            try_to_install(world, by, &app, granted).refused(status, code);
        }
        assert_eq!(format!("{:?}", world.database.dump()), before);
        let stranger = world.id("agent").to_string();
        try_to_install(world, admin, &stranger, &["workspace:read"]).refused(404, "not-found");

        let granted = ["workspace:read", "message:post", "secret:read"];
        let installed = install(world, &app, &granted);
        try_to_mint(world, admin, &installed, &["workspace:write"]).refused(403, "forbidden");
        try_to_mint(world, &narrow, &installed, &["secret:read"]).refused(403, "forbidden");
        let token = try_to_mint(world, admin, &installed, &granted[..2]).output();
        assert_eq!(token["bot_member_id"], installed["bot_member_id"]);
        let secret = text(&token["secret"]);
        let beyond = json!({"capabilities": ["secret:read"]});
        world.call(&secret, "attenuate_token", beyond).refused(403, "forbidden");
        let rotated = world.call(&secret, "rotate_token", json!({})).output();
        assert_eq!(rotated["capabilities"], token["capabilities"]);
        let mint = json!({"member_id": installed["bot_member_id"]});
        world.call(admin, "mint_token", of_workspace(world, mint)).refused(409, "wrong-state");
    });
}

#[test]
fn nobody_takes_the_handle_of_an_app_or_of_a_peer() {
    on_both_engines(|world| {
        for handle in ["app:x", "APP:x", "peer:x"] {
            let input = of_workspace(world, json!({"handle": handle}));
            world.call(&world.people.admin, "create_agent", input).refused(400, "malformed-request");
        }
    });
}

/// Returns each failure of the token endpoint: the changed parameters, the status, the problem and the error
/// of RFC 6749.
fn failures() -> Vec<(Value, u16, &'static str, &'static str)> {
    let request = (400, "malformed-request");
    let client = (401, "unauthenticated");
    let row = |changes, (status, code), error| (changes, status, code, error);
    vec![
        row(json!({"grant_type": null}), request, "invalid_request"),
        row(json!({"grant_type": ""}), request, "invalid_request"),
        row(json!({"grant_type": "password"}), request, "unsupported_grant_type"),
        row(json!({"client_id": null}), client, "invalid_client"),
        row(json!({"client_id": "x"}), client, "invalid_client"),
        row(json!({"client_id": "01990000-0000-7000-8000-000000000001"}), client, "invalid_client"),
        row(json!({"client_secret": null}), client, "invalid_client"),
        row(json!({"client_secret": "svc_wrong"}), client, "invalid_client"),
        row(json!({"client_secret": 1}), request, "invalid_request"),
        row(json!({"scope": "token:admin"}), request, "invalid_scope"),
        row(json!({"scope": "everything"}), request, "invalid_scope"),
    ]
}

#[test]
fn the_token_endpoint_refuses_by_the_errors_of_the_rfc_and_leaves_nothing() {
    on_both_engines(|world| {
        let installed = install(world, &new_app(world, "failing"), &["workspace:read"]);
        let before = format!("{:?}", world.database.dump());
        let check = |answer: Answer, (status, code, error): (u16, &str, &str), what: &Value| {
            assert_eq!(answer.headers[CACHE_CONTROL], "no-store", "{what}");
            let basic = answer.headers.get(WWW_AUTHENTICATE).map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(basic.is_some_and(|value| value.starts_with("Basic ")), status == 401, "{what}");
            assert_eq!(answer.refused(status, code)["error"], error, "{what}");
        };
        for (changes, status, code, error) in failures() {
            check(ask(world, &installed, changes.clone()), (status, code, error), &changes);
        }
        let rest = world.rest();
        let credentials = format!("{}:{}", text(&installed["client_id"]), text(&installed["client_secret"]));
        let basic = format!("Basic {}", STANDARD.encode(&credentials));
        let authorized = [("authorization", basic.as_str())];
        let both =
            format!("grant_type=client_credentials&client_secret={}", text(&installed["client_secret"]));
        let request = (400, "malformed-request", "invalid_request");
        check(rest.send_form(TOKEN, &authorized, &both), request, &json!("in two ways"));
        let twice = "grant_type=client_credentials&grant_type=client_credentials";
        check(rest.send_form(TOKEN, &authorized, twice), request, &json!("twice"));
        let address = format!("{TOKEN}?grant_type=client_credentials");
        check(rest.send_form(&address, &authorized, ""), request, &json!("in the address"));
        let text_body = rest.send(None, "POST", TOKEN, &[("content-type", "text/plain")], Some(&json!({})));
        check(text_body, (415, "unsupported-media-type", "invalid_request"), &json!("text"));
        let method = rest.send(None, "GET", TOKEN, &[], None);
        check(method, (405, "method-not-allowed", "invalid_request"), &json!("by GET"));
        assert_eq!(format!("{:?}", world.database.dump()), before);
    });
}

#[test]
fn an_app_gets_a_token_for_an_hour_in_each_way_of_the_rfc() {
    on_both_engines(|world| {
        let installed = install(world, &new_app(world, "client"), &["workspace:read", "message:post"]);
        let id = text(&installed["client_id"]);
        let secret = text(&installed["client_secret"]);
        let basic = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
        let rest = world.rest();
        let answers = [
            ask(world, &installed, json!({})),
            ask(world, &installed, json!({"scope": "", "unknown": {"x": 1}})),
            rest.send_form(
                TOKEN,
                &[],
                &format!("grant_type=client_credentials&client_id={id}&client_secret={secret}"),
            ),
            rest.send_form(TOKEN, &[("authorization", &basic)], "grant_type=client_credentials&x=1"),
        ];
        for answer in answers {
            assert_eq!(
                (&answer.headers[CACHE_CONTROL], &answer.headers[PRAGMA]),
                (&"no-store".parse().unwrap(), &"no-cache".parse().unwrap())
            );
            let token = answer.output();
            assert_eq!((&token["token_type"], &token["expires_in"]), (&json!("Bearer"), &json!(3600)));
            assert_eq!(token["scope"], "workspace:read message:post");
            let me = world.call(&text(&token["access_token"]), "whoami", json!({})).output();
            assert_eq!(me["member_id"], installed["bot_member_id"]);
        }
        let narrow = ask(world, &installed, json!({"scope": "workspace:read"})).output();
        let narrow = text(&narrow["access_token"]);
        let channel = of_workspace(world, json!({"name": "x"}));
        world.call(&narrow, "create_channel", channel).refused(403, "missing-capability");
        let listed = of_workspace(world, json!({"member_id": installed["bot_member_id"]}));
        let listed = world.admin("list_tokens", listed)["items"].as_array().unwrap().clone();
        assert_eq!(listed.len(), 5);
        assert!(listed.iter().all(|token| token["installation_id"] == installed["id"]));
        assert!(works(world, &narrow));
        world.pass(Duration::from_secs(APP_TOKEN_SECS.unsigned_abs()));
        assert!(!works(world, &narrow));
    });
}

#[test]
fn a_frozen_or_deactivated_app_gets_no_token() {
    on_both_engines(|world| {
        let installed = install(world, &new_app(world, "stopped"), &["workspace:read"]);
        let id = world.database.id(text(&installed["bot_member_id"]).parse::<uuid::Uuid>().unwrap());
        let set = |column: &str, value: &str| {
            world.database.execute(&format!("update members set {column} = {value} where id = {id}"));
        };
        set("frozen_at", "created_at");
        let frozen = ask(world, &installed, json!({})).refused(403, "member-frozen");
        assert_eq!(frozen["error"], "unauthorized_client");
        set("frozen_at", "null");
        set("deactivated_at", "created_at");
        let gone = ask(world, &installed, json!({})).refused(401, "unauthenticated");
        assert_eq!(gone["error"], "invalid_client");
        set("deactivated_at", "null");
        assert!(works(world, &access(world, &installed)), "a control");
    });
}

#[test]
fn everything_an_app_holds_ends_with_its_installation_on_every_server() {
    on_both_engines(|world| {
        let other = world.another_service(7);
        let installed =
            install(world, &new_app(world, "ending"), &["workspace:read", "message:post", "event:subscribe"]);
        let own = access(world, &installed);
        let minted =
            try_to_mint(world, &world.people.admin, &installed, &["workspace:read", "event:subscribe"]);
        let minted = text(&minted.output()["secret"]);
        let derived = world.call(&minted, "attenuate_token", json!({"capabilities": ["workspace:read"]}));
        let derived = text(&derived.output()["secret"]);
        let bearer = Credential::Bearer(SecretString::from(own.as_str()));
        let session = world.call_by(bearer, "create_session", &json!({"token": own})).output();
        let session = Credential::Session(text(&session["session_id"]).parse().unwrap());
        let secrets = [own.as_str(), &minted, &derived];
        for secret in secrets {
            assert!(works(world, secret));
            assert!(call(&other, Some(secret), "whoami", &json!({})).is_ok());
        }
        let first = first_frame(&minted, world.id("workspace"), None);
        let mut ws = Ws::subscribe(world.address(), &first);
        assert_eq!(ws.frame()["type"], "subscribe_ack");

        let input = of_workspace(world, json!({"installation_id": installed["id"]}));
        let revoked =
            answer_of(call(&other, Some(&world.people.admin), "revoke_app_installation", &input)).output();
        assert_eq!(revoked["token_ids"].as_array().unwrap().len(), 3);
        world.admin("post_message", json!({"thread_id": world.id("thread"), "body": "not for you"}));
        for secret in secrets {
            assert!(!works(world, secret));
            assert!(call(&other, Some(secret), "whoami", &json!({})).is_err());
        }
        world.call_by(session, "whoami", &json!({})).refused(401, "unauthenticated");
        assert_eq!(
            ask(world, &installed, json!({})).refused(401, "unauthenticated")["error"],
            "invalid_client"
        );
        loop {
            match ws.receive() {
                Received::Frame(frame) => assert!(!frame.to_string().contains("not for you"), "{frame}"),
                Received::Closed(code) => break assert_eq!(code, 1008),
            }
        }
    });
}

#[test]
fn an_installation_has_so_many_live_tokens_and_no_more() {
    on_both_engines(|world| {
        let installed = install(world, &new_app(world, "many"), &["workspace:read"]);
        let first = try_to_mint(world, &world.people.admin, &installed, &["workspace:read"]).output();
        let id = world.database.id(text(&first["id"]).parse::<uuid::Uuid>().unwrap());
        let columns = "workspace_id, member_id, actor_id, capabilities, created_at, lsn, installation_id";
        let (new_id, hash) = match world.engine() {
            svc_core::Engine::Sqlite => ("randomblob(16)", "randomblob(32)"),
            svc_core::Engine::Postgres => ("gen_random_uuid()", "sha256(gen_random_uuid()::text::bytea)"),
        };
        world.database.execute(&format!(
            "with recursive n (i) as (select 1 union all select i + 1 from n where i < {})
             insert into tokens (id, secret_hash, {columns})
             select {new_id}, {hash}, {columns} from tokens, n where tokens.id = {id}",
            INSTALLATION_TOKENS_MAX - 1
        ));
        try_to_mint(world, &world.people.admin, &installed, &["workspace:read"]).refused(409, "wrong-state");
        let full = ask(world, &installed, json!({})).refused(409, "wrong-state");
        assert_eq!(full["error"], "temporarily_unavailable");
        let input = json!({
            "grant_type": "client_credentials", "client_id": installed["client_id"],
            "client_secret": installed["client_secret"],
        });
        world.call_by(Credential::Nothing, "request_app_token", &input).refused(409, "wrong-state");
        let narrower = json!({"capabilities": ["workspace:read"]});
        world.call(&text(&first["secret"]), "attenuate_token", narrower).refused(409, "wrong-state");
        assert_eq!(
            i64::try_from(revoke(world, &installed)["token_ids"].as_array().unwrap().len()).unwrap(),
            INSTALLATION_TOKENS_MAX
        );
    });
}

#[test]
fn no_secret_of_an_app_is_stored() {
    on_both_engines(|world| {
        let installed = install(world, &new_app(world, "secretive"), &["workspace:read"]);
        let token = access(world, &installed);
        let dump = format!("{:?}", world.database.dump());
        assert!(dump.contains("app:secretive"), "a control");
        for secret in [text(&installed["client_secret"]), token] {
            let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
            assert!(!dump.contains(&secret) && !dump.to_lowercase().contains(&hex));
        }
    });
}
