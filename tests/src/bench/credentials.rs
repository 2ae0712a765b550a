//! The cost of credentials and limits: sessions of browsers, delegated tokens, limits that servers share.
//!
//! In process, without transport; each side reads the credential from the values of its headers, and admits
//! its requests.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::op::{Credential, Request, SESSION_COOKIE, SessionKey, Surface, read_credential};
use svc_core::{Code, Database, Engine, OpenMode, RateSettings, Service, ServiceOptions};
use tokio::runtime::Runtime;

use super::posts::callers;
use super::stage::{Stage, body};
use super::{Finding, alternate};
use crate::database::TestDatabase;
use crate::ordeal::proxy::Proxy;
use crate::session_key;

const SPAN: Duration = Duration::from_millis(1000);
const CALLERS: usize = 64;

/// The values of the headers that identify the sender of a request.
#[derive(Clone)]
struct SenderHeaders {
    authorization: Option<String>,
    cookie: Option<String>,
}

impl SenderHeaders {
    fn bearer(token: &str) -> Self {
        Self { authorization: Some(format!("Bearer {token}")), cookie: None }
    }

    fn credential(&self, key: &SessionKey) -> Credential {
        let authorization = self.authorization.iter();
        let cookie = self.cookie.iter();
        let authorization = authorization.map(String::as_bytes);
        let cookie = cookie.map(String::as_bytes);
        read_credential(authorization, cookie, Some(key)).expect("a credential")
    }
}

/// A call that is repeated.
struct RepeatedCall {
    service: Service,
    sent: SenderHeaders,
    operation: &'static str,
    input: Value,
}

type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

impl RepeatedCall {
    fn calls(self) -> impl Fn(usize, usize) -> Call + Clone + Send + 'static {
        let shared = Arc::new((self, session_key()));
        move |_, _| {
            let shared = Arc::clone(&shared);
            Box::pin(async move {
                let (Self { service, sent, operation, input }, key) = &*shared;
                let request = Request::json(Surface::Rest, sent.credential(key), input.to_string());
                let operation = service.operation(operation).expect("an operation");
                service.ask(operation, request).await.expect("a success");
            })
        }
    }
}

fn bearer(token: &str) -> Credential {
    Some(SecretString::from(token.to_owned())).into()
}

/// Returns a read of one message.
fn read(stage: &Stage, service: &Service, sent: SenderHeaders) -> RepeatedCall {
    let message = stage.call("post_message", json!({"thread_id": stage.thread_id, "body": body(1)}));
    let input = json!({"message_id": message["id"]});
    RepeatedCall { service: service.clone(), sent, operation: "get_message", input }
}

/// Runs both in alternation. `wanted` is the minimum of their ratio.
fn compare(
    name: &'static str,
    wanted: f64,
    engine: Engine,
    pairs: usize,
    runtime: &Runtime,
    (ours, floor): (RepeatedCall, RepeatedCall),
    floor_is: &'static str,
) -> Finding {
    let ours = ours.calls();
    let floor = floor.calls();
    let pairs = alternate(
        pairs,
        || callers(runtime, CALLERS, SPAN, ours.clone()),
        || callers(runtime, CALLERS, SPAN, floor.clone()),
    );
    Finding { name, engine, pairs, floor_is, extra: json!({"wanted": wanted}) }
}

/// Compares reads by the session of a browser with the same reads by the token that it was made from.
pub fn sessions(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::on(engine);
    let stage = Stage::build(&database);
    let made = stage.call("create_session", json!({"token": stage.token}));
    let session = made["session_id"].as_str().expect("an id").parse().expect("a session's id");
    let cookie = format!("theme=dark; {SESSION_COOKIE}={}", session_key().cookie(session));
    let ours = read(&stage, &stage.service, SenderHeaders { authorization: None, cookie: Some(cookie) });
    let floor = read(&stage, &stage.service, SenderHeaders::bearer(&stage.token));
    compare("sessions", 0.9, engine, pairs, runtime, (ours, floor), "the same reads by the token")
}

/// Compares reads by a delegated token, each of which commits an audit row, with posted messages.
pub fn delegated(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::on(engine);
    let stage = Stage::build(&database);
    let delegate = stage.call(
        "create_agent",
        json!({"workspace_id": stage.workspace_id, "handle": "delegate", "display_name": "Delegate"}),
    );
    let grant = stage.call(
        "create_delegation_grant",
        json!({
            "workspace_id": stage.workspace_id, "subject": stage.admin_id,
            "delegate": delegate["member"]["id"], "capabilities": ["workspace:read"],
            "purpose": "a benchmark", "expires_in_secs": 7200,
        }),
    );
    let own = delegate["token"]["secret"].as_str().expect("a secret").to_owned();
    let exchanged = runtime.block_on(stage.ask(
        &own,
        "delegate_token",
        json!({"grant_id": grant["grant_id"], "expires_in_secs": 3600}),
    ));
    let exchanged = exchanged["secret"].as_str().expect("a secret");
    let ours = read(&stage, &stage.service, SenderHeaders::bearer(exchanged));
    let floor = RepeatedCall {
        service: stage.service.clone(),
        sent: SenderHeaders::bearer(&stage.token),
        operation: "post_message",
        input: json!({"thread_id": stage.thread_id, "body": body(1)}),
    };
    compare("delegated", 0.8, engine, pairs, runtime, (ours, floor), "messages posted by a member")
}

/// Compares reads that count towards limits with reads that do not, and measures how much two servers admit
/// of one client.
pub fn limits(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::on(engine);
    let stage = Stage::build(&database);
    // More than are ever read in a second; on Postgres a server reports a twentieth of it about once in that
    // time.
    let most = match engine {
        Engine::Sqlite => 100_000_000,
        Engine::Postgres => 1_000_000,
    };
    let often = RateSettings { per_client: most, per_workspace: 0, window: Duration::from_secs(1) };
    let limited = another(database.address(), often);
    let ours = read(&stage, &limited, SenderHeaders::bearer(&stage.token));
    let floor = read(&stage, &stage.service, SenderHeaders::bearer(&stage.token));
    let found =
        compare("limits", 0.9, engine, pairs, runtime, (ours, floor), "the same reads without limits");
    let seldom = RateSettings { per_client: LIMIT, per_workspace: 0, window: Duration::from_secs(36_000) };
    let servers = [0; 2].map(|_| another(database.address(), seldom));
    let admitted = runtime.block_on(admitted(&servers, &stage.token));
    let mut extra = json!({
        "wanted": 0.9, "limit": LIMIT, "servers": servers.len(), "admitted": admitted,
        "admitted_ratio": super::round(admitted as f64 / LIMIT as f64), "admitted_wanted": 1.1,
    });
    if engine == Engine::Postgres {
        let counted = |rates| statements(&database, rates, &stage.token, runtime);
        let unlimited = RateSettings { per_client: 0, per_workspace: 0, ..often };
        let ours = counted(seldom);
        let floor = counted(unlimited);
        extra["statements"] = json!({"reads": READS, "ours": ours, "floor": floor, "wanted": "no more"});
    }
    Finding { extra, ..found }
}

/// Fewer than the requests after which a server reports to the others.
const READS: usize = 45;

/// Returns the number of statements that these reads cost a service with such limits.
fn statements(database: &TestDatabase, rates: RateSettings, token: &str, runtime: &Runtime) -> usize {
    let proxy = Proxy::start(&database.url());
    let service = another(Database::Postgres(proxy.url(&[]).into()), rates);
    let ask = |reads: usize| {
        for _ in 0..reads {
            let operation = service.operation("whoami").expect("an operation");
            let request = Request::json(Surface::Rest, bearer(token), "{}");
            runtime.block_on(service.ask(operation, request)).expect("a success");
        }
    };
    // Everything is cached from then on.
    ask(2);
    let before = proxy.statements();
    ask(READS);
    proxy.statements() - before
}

/// The limit of the client of two servers.
const LIMIT: i64 = 1000;

/// Returns another service on the database, with limits.
fn another(address: Database, rates: RateSettings) -> Service {
    let mut options = ServiceOptions::new(address, [7; 32]);
    (options.mode, options.rates) = (OpenMode::Existing, rates);
    Service::with_options(options).expect("the service opens")
}

/// Returns how many requests of a client these servers admit, until all of them reject one.
async fn admitted(servers: &[Service], token: &str) -> usize {
    let mut admitted = 0;
    loop {
        let mut round = 0;
        for service in servers {
            let operation = service.operation("whoami").expect("an operation");
            match service.ask(operation, Request::json(Surface::Rest, bearer(token), "{}")).await {
                Ok(_) => round += 1,
                Err(error) => assert_eq!(error.code(), Code::RateLimited, "{error}"),
            }
        }
        if round == 0 {
            return admitted;
        }
        admitted += round;
    }
}
