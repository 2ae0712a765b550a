//! Signing in at an identity provider over HTTP: the browser's redirects, and the resulting member.

mod browser;
mod chromium;
mod discovery;
mod forms;
mod id_token;
mod keys;
mod members;
mod producers;
mod provider;
mod tokens;
mod unknown;
mod user_info;

use http::header::{LOCATION, SET_COOKIE};
use serde_json::{Value, json};
use svc_core::config::{OidcConfig, OidcProvider};
use svc_core::op::Operation;
use svc_http::HttpSettings;
use svc_tests::client::Answer;
use svc_tests::database::engines;
use svc_tests::provider::Provider;
use svc_tests::{Setup, World};

const LOGIN: &str = "/auth/oidc/login";
const BACK: &str = "/auth/oidc/callback";
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// Returns the settings of a server with the mock provider, which accepts everyone.
fn mock() -> HttpSettings {
    let oidc = OidcConfig { provider: OidcProvider::Mock, redirect_uri: None };
    HttpSettings { oidc: Some(oidc), ..HttpSettings::default() }
}

/// Returns a world with the mock, where every person becomes a member.
fn open_to_all() -> Setup {
    Setup { http: mock(), auto_provision: true, ..Setup::default() }
}

fn on_both(setup: impl Fn() -> Setup, test: impl Fn(&World)) {
    engines().into_iter().for_each(|engine| test(&World::with(engine, setup())));
}

/// A sign-in in progress: the target of the redirect, and the cookie.
struct BegunSignIn {
    sent_to: String,
    cookie: String,
}

fn cookie_of(answer: &Answer, name: &str) -> Option<String> {
    let values = answer.headers.get_all(SET_COOKIE).iter().map(|value| value.to_str().unwrap());
    let pairs = values.map(|value| value.split(';').next().unwrap());
    pairs.filter(|pair| pair.starts_with(&format!("{name}="))).map(str::to_owned).next()
}

/// Returns the target of a redirect to this server.
fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{:#}", answer.body);
    let location = answer.headers[LOCATION].to_str().unwrap();
    location.strip_prefix("../../").map_or_else(|| location.to_owned(), |path| format!("/{path}"))
}

fn get(world: &World, target: &str, cookie: Option<&str>) -> Answer {
    let cookie = cookie.map(|cookie| ("cookie", cookie));
    world.rest().send(None, "GET", target, cookie.as_slice(), None)
}

/// Begins a sign-in, with additional parameters in the query.
fn begin(world: &World, more: &str) -> BegunSignIn {
    let answer = get(world, &format!("{LOGIN}?workspace_id={}{more}", world.id("workspace")), None);
    BegunSignIn { sent_to: location(&answer), cookie: cookie_of(&answer, "svc_oidc").unwrap() }
}

/// Signs a person in at the mock.
fn come(world: &World, more: &str) -> Answer {
    let begun = begin(world, more);
    get(world, &begun.sent_to, Some(&begun.cookie))
}

/// Returns the session of a browser that was signed in.
fn session(world: &World, answer: &Answer) -> Value {
    location(answer);
    get(world, "/auth/session", cookie_of(answer, "svc_session").as_deref()).output()
}

/// Returns how the member of the last session was found, from the audit row.
fn found(world: &World) -> Value {
    let input = json!({"workspace_id": world.id("workspace"), "action": "session.create", "limit": 1});
    world.admin("list_audit", input)["items"][0]["metadata"]["member"].clone()
}

fn count(world: &World, table: &str) -> i64 {
    world.database.number(&format!("select count(*) from {table}"))
}

fn set(world: &World, member: &str, assignment: &str) {
    let member = world.database.id(world.id(member));
    world.database.execute(&format!("update members set {assignment} where id = {member}"));
}

/// Returns the counts of everything that signing in can leave behind.
fn left(world: &World) -> [i64; 4] {
    ["sessions", "members", "oidc_identities", "events"].map(|table| count(world, table))
}

/// Calls a row of the table, and checks that a refusal is declared.
fn ask(world: &World, name: &str, input: &Value, cookie: &str) -> Answer {
    let row: &Operation = world.operation(name);
    world.rest().call_by(None, &[("cookie", cookie)], row, row.http().path, input)
}

/// Returns a world whose people sign in at `provider`, where everyone may become a member and be linked.
fn at(provider: &Provider) -> Setup {
    Setup { http: provider.settings(), link_email: true, auto_provision: true, ..Setup::default() }
}

/// Signs a person in at the provider, with changes to the query that the browser brings back.
fn come_from(
    world: &World,
    provider: &Provider,
    person: &Value,
    change: impl Fn(&mut Vec<(String, String)>),
) -> Answer {
    let begun = begin(world, "");
    let mut back = provider.sign_in(world.clock.now(), &begun.sent_to, person);
    change(&mut back);
    let query: Vec<String> = back.iter().map(|(name, value)| format!("{name}={value}")).collect();
    get(world, &format!("{BACK}?{}", query.join("&")), Some(&begun.cookie))
}

fn person() -> Value {
    json!({"sub": "248289761001", "email": "ada@corp.example", "email_verified": true, "name": "Ada"})
}
