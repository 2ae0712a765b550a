//! No secret is stored or revealed: the test uses every sign-in with known secrets, valid and invalid ones,
//! and then searches the database, its events, an export and the most detailed log for them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::header::{LOCATION, SET_COOKIE};
use serde_json::{Value, json};
use svc_core::op::Table;
use svc_core::time::Clock;
use svc_tests::client::Answer;
use svc_tests::client::mcp::Mcp;
use svc_tests::client::ws::{Received, Ws, first_frame};
use svc_tests::database::engines;
use svc_tests::provider::{Provider, ProviderScript, pairs};
use svc_tests::site::{Server, Site};
use svc_tests::text;

/// The key of the cookies.
const SESSION_SECRET: &str = "the-key-of-the-cookies-of-this-site";
const FROM_TOKEN: &str = "/auth/session/from-token";
const APP_TOKEN: &str = "/oauth/app/token";

/// A server, and the secrets that it has received and sent.
struct SecretRecord<'s> {
    site: &'s Site,
    server: &'s Server,
    table: Table,
    secrets: Vec<(String, String)>,
}

impl SecretRecord<'_> {
    /// Remembers a secret.
    fn secret(&mut self, what: &str, secret: &str) -> String {
        assert!(secret.len() >= 16, "{what} is too short to be found by: {secret}");
        self.secrets.push((what.to_owned(), secret.to_owned()));
        secret.to_owned()
    }

    /// Returns a secret that was never issued.
    fn wrong(&mut self, what: &str) -> String {
        let secret = format!("svc_wrong_secret_{}", what.replace(' ', "_"));
        self.secret(&format!("a wrong {what}"), &secret)
    }

    fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        self.server.rest.send(None, "POST", path, headers, Some(body))
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.server.rest.send(None, "GET", path, headers, None)
    }

    /// Calls an operation on the workspace with a token.
    fn call_by(&self, token: &str, name: &str, mut input: Value) -> Value {
        let row = self.table.operation(name).unwrap();
        if row.http().path.contains("{workspace_id}") {
            input["workspace_id"] = json!(self.site.founders.workspace_id);
        }
        self.server.rest.call(Some(token), row, &input).output()
    }

    fn admin(&self, name: &str, input: Value) -> Value {
        self.call_by(&self.site.founders.admin, name, input)
    }
}

/// Uses tokens: of a member, rotated, delegated; over REST, MCP and WebSocket.
fn by_tokens(told: &mut SecretRecord<'_>) {
    let founders = told.site.founders.clone();
    let address = told.server.address();
    let admin = told.secret("token", &founders.admin);
    let agent = told.secret("token", &founders.agent);
    let wrong = told.wrong("token");
    let minted = told.admin("mint_token", json!({"member_id": founders.agent_id}));
    told.secret("minted token", &text(&minted["secret"]));
    let rotated = told.admin("rotate_token", json!({"token_id": minted["id"]}));
    let rotated = told.secret("rotated token", &text(&rotated["secret"]));
    let grant = told.admin(
        "create_delegation_grant",
        json!({"subject": founders.admin_id, "delegate": founders.agent_id,
               "capabilities": ["workspace:read"], "expires_in_secs": 3600, "purpose": "a test"}),
    );
    let exchanged = told.call_by(&agent, "delegate_token", json!({"grant_id": grant["grant_id"]}));
    let exchanged = told.secret("exchanged token", &text(&exchanged["secret"]));
    let mcp = Mcp { http: told.server.rest };
    for (token, status) in [(&admin, 200), (&rotated, 200), (&exchanged, 200), (&wrong, 401)] {
        assert_eq!(told.server.rest.send(Some(token), "GET", "/me", &[], None).status, status);
        assert_eq!(mcp.request(Some(token), "tools/list", json!({})).status, status);
        let broken = json!({"name": wrong, "unknown": wrong});
        let path = format!("/workspaces/{}/channels", founders.workspace_id);
        assert!(told.server.rest.send(Some(token), "POST", &path, &[], Some(&broken)).status >= 400);
    }
    for (token, is_open) in [(&agent, true), (&wrong, false)] {
        let mut socket = Ws::subscribe(address, &first_frame(token, &founders.workspace_id, None));
        assert_eq!(matches!(socket.receive(), Received::Frame(_)), is_open);
    }
}

/// Uses sessions: made from a token, used, signed out; and invalid ones.
fn by_sessions(told: &mut SecretRecord<'_>) {
    let admin = told.site.founders.admin.clone();
    let made = told.post(FROM_TOKEN, &[], &json!({"token": admin}));
    let cookie = cookie_of(&made, "svc_session");
    told.secret("cookie", cookie.rsplit_once('.').unwrap().1);
    let wrong = told.wrong("token of a session");
    let named = format!("svc_session={cookie}");
    let id = cookie.split('.').nth(1).unwrap();
    let forged = told.wrong("signature");
    let forged = format!("svc_session=v1.{id}.{forged}");
    for body in [json!({"token": wrong}), json!({"token": wrong, "more": wrong}), json!({"token": [wrong]})] {
        assert!(told.post(FROM_TOKEN, &[], &body).status >= 400);
    }
    assert!(told.get("/me", &[("cookie", &named)]).is_success());
    assert_eq!(told.get("/me", &[("cookie", &forged)]).status, 401);
    assert_eq!(told.get("/me", &[("cookie", &named), ("origin", "http://evil.example")]).status, 401);
    let bearer = format!("Bearer {admin}");
    assert!(told.get("/me", &[("cookie", &named), ("authorization", &bearer)]).is_success());
    assert!(told.post("/auth/logout", &[("cookie", &named)], &json!({})).is_success());
}

/// Uses a share ticket, and invalid ones.
fn by_tickets(told: &mut SecretRecord<'_>) {
    let channel = told.admin("create_channel", json!({"name": "shared"}));
    let ticket = json!({"channel_id": channel["id"], "expires_in_secs": 3600});
    let ticket = told.admin("create_share_ticket", ticket);
    let ticket = told.secret("share ticket", &text(&ticket["secret"]));
    let wrong = told.wrong("share ticket");
    for (ticket, status) in [(ticket, 200), (wrong, 401)] {
        let header = format!("ShareTicket {ticket}");
        assert_eq!(told.get("/share/manifest", &[("authorization", &header)]).status, status);
        assert_eq!(told.get("/me", &[("authorization", &header)]).status, 401);
    }
}

/// Uses an app: its secret in a form, in JSON and by HTTP Basic; and invalid secrets.
fn by_apps(told: &mut SecretRecord<'_>) {
    let app = told.admin("create_app", json!({"slug": "robot", "name": "Robot"}));
    let installed = json!({"app_id": app["id"], "granted_capabilities": ["workspace:read"]});
    let installed = told.admin("install_app", installed);
    let id = text(&installed["client_id"]);
    let secret = text(&installed["client_secret"]);
    let secret = told.secret("client secret", &secret);
    let wrong = told.wrong("client secret");
    let grant = "grant_type=client_credentials";
    for (secret, status) in [(&secret, 200), (&wrong, 401)] {
        let basic = told.secret("client secret by Basic", &STANDARD.encode(format!("{id}:{secret}")));
        let header = [("authorization", &*format!("Basic {basic}"))];
        let form = format!("{grant}&client_id={id}&client_secret={secret}");
        let fields = json!({"grant_type": "client_credentials", "client_id": id, "client_secret": secret});
        for answer in [
            told.server.rest.send_form(APP_TOKEN, &[], &form),
            told.server.rest.send_form(APP_TOKEN, &header, grant),
            told.post(APP_TOKEN, &[], &fields),
        ] {
            assert_eq!(answer.status, status, "{:#}", answer.body);
            if status == 200 {
                let token = told.secret("token of an app", &text(&answer.body["access_token"]));
                assert!(told.server.rest.send(Some(&token), "GET", "/me", &[], None).is_success());
            }
        }
        let twice = told.server.rest.send_form(APP_TOKEN, &header, &form);
        assert_eq!(twice.status, 400, "in two ways");
        let address = told.server.rest.send_form(&format!("{APP_TOKEN}?client_secret={secret}"), &[], grant);
        assert_eq!(address.status, 400, "in the address");
        let broken = format!("{form}&client_secret={secret}&%");
        assert_eq!(told.server.rest.send_form(APP_TOKEN, &[], &broken).status, 400);
    }
}

/// Uses the provider: a person who signs in, also by UserInfo; one that it refuses; and one with an
/// unreadable document.
fn by_provider(told: &mut SecretRecord<'_>, provider: &Provider) {
    let login = format!("/auth/oidc/login?workspace_id={}", told.site.founders.workspace_id);
    let person = json!({"sub": "248289761001", "email": "eve@corp.example", "email_verified": true});
    let nobody = json!({"sub": "248289761002"});
    let unreadable = |_, text: String| json!(text).to_string();
    for (person, status) in [(&person, 303), (&nobody, 303), (&person, 401), (&person, 503)] {
        let is_right = status == 303;
        let sent = told.get(&login, &[]);
        let sent_to = sent.headers[LOCATION].to_str().unwrap();
        let browser = cookie_of(&sent, "svc_oidc");
        let browser = told.secret("cookie of a sign-in", &browser);
        let asked = pairs(sent_to.split_once('?').unwrap().1);
        let mut back = provider.sign_in(Clock::system().now(), sent_to, person);
        if status == 401 {
            back[0].1 = told.wrong("code of the provider");
        }
        if status == 503 {
            provider
                .does(ProviderScript { written: Some(Box::new(unreadable)), ..ProviderScript::default() });
        }
        for (what, secret) in [("state", &asked["state"]), ("nonce", &asked["nonce"]), ("code", &back[0].1)] {
            told.secret(what, secret);
        }
        let query: Vec<String> = back.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let target = format!("/auth/oidc/callback?{}", query.join("&"));
        let cookie = format!("svc_oidc={browser}");
        let landed = told.get(&target, &[("cookie", &cookie)]);
        assert_eq!(landed.status, status, "{:#}", landed.body);
        assert_eq!(told.get(&target, &[("cookie", &cookie)]).status, 401, "a second time");
        if is_right {
            let session = cookie_of(&landed, "svc_session");
            told.secret("cookie of a person", session.rsplit_once('.').unwrap().1);
            let cookie = format!("svc_session={session}");
            assert!(told.get("/me", &[("cookie", &cookie)]).is_success());
        }
    }
    for (what, secret) in provider.secrets() {
        told.secret(what, &secret);
    }
}

fn cookie_of(answer: &Answer, name: &str) -> String {
    let values = answer.headers.get_all(SET_COOKIE).iter().map(|value| value.to_str().unwrap());
    let mut values = values.filter_map(|value| value.split(';').next()?.strip_prefix(&format!("{name}=")));
    values
        .find(|value| !value.is_empty())
        .unwrap_or_else(|| panic!("no {name}: {:?}", answer.headers))
        .to_owned()
}

/// Returns whether a text contains a secret: as it is, or in the encodings of printed bytes.
fn tells(text: &str, secret: &str) -> bool {
    let spaced = secret.replace(' ', "+");
    [secret, &*spaced, &hex::encode(secret), &STANDARD.encode(secret), &URL_SAFE_NO_PAD.encode(secret)]
        .iter()
        .any(|form| text.contains(form))
}

#[test]
fn no_secret_is_stored_recorded_exported_or_logged() {
    for engine in engines() {
        let site = Site::found(engine);
        let provider = Provider::start();
        let mut variables = provider.variables();
        variables.extend([
            ("SVC_LOG", "trace".to_owned()),
            ("SVC_SESSION_SECRET", SESSION_SECRET.to_owned()),
            ("SVC_OIDC_AUTO_PROVISION", "1".to_owned()),
        ]);
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
        let server = site.serve(&variables);
        let table = svc_core::operation_table().unwrap();
        let mut told = SecretRecord { site: &site, server: &server, table, secrets: Vec::new() };
        told.secret("key of the cookies", SESSION_SECRET);
        by_tokens(&mut told);
        by_sessions(&mut told);
        by_tickets(&mut told);
        by_apps(&mut told);
        by_provider(&mut told, &provider);

        let exported = told.admin("export_workspace", json!({})).to_string();
        let secrets = told.secrets;
        server.running.signal("TERM");
        let log = server.running.ended().err;
        let mut searched: Vec<(String, String)> =
            site.database.dump().into_iter().map(|(table, rows)| (table, rows.join("\n"))).collect();
        searched.extend([("the export".to_owned(), exported), ("the log".to_owned(), log)]);
        for place in ["events", "the export"] {
            let (_, text) = searched.iter().find(|(name, _)| name == place).unwrap();
            assert!(text.contains("MemberCreated"), "a control: {place}");
        }
        let (_, log) = searched.last().unwrap();
        let lines = log.lines().count();
        let traced = log.matches(" TRACE ").count();
        assert!(traced > 10, "a control: everything is logged: {traced} of {lines}");
        for (what, secret) in &secrets {
            for (place, text) in &searched {
                assert!(!tells(text, secret), "{engine:?}: {place} has the {what} {secret}");
            }
        }
    }
}

/// A control: a secret is found in each form.
#[test]
fn a_secret_that_is_told_is_found() {
    let secret = "svc_secret of a test";
    for told in [
        "a svc_secret of a test b".to_owned(),
        "secret=svc_secret+of+a+test&".to_owned(),
        format!("[\"{}\"]", hex::encode(secret)),
        STANDARD.encode(secret),
    ] {
        assert!(tells(&told, secret), "{told}");
    }
    assert!(!tells("svc_secret of another", secret));
}
