//! A world: a service on its own database, prepared with people and one of everything.
//!
//! Its clock moves only when a test moves it, and its ids are the same in every world with the same seed.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::egress::Egress;
use svc_core::entropy::Entropy;
use svc_core::id::SessionId;
use svc_core::op::{
    Credential, Feature, Fixture, MailSettings, Operation, Reply, Request, SessionKey, Surface,
};
use svc_core::signed_note::NoteSigner;
use svc_core::spool::SpoolFolder;
use svc_core::time::{Clock, Time};
use svc_core::{Database, Engine, Error, OpenMode, RateSettings, Result, Service, ServiceOptions, Watcher};
use svc_http::HttpSettings;
use uuid::Uuid;

use crate::client::Answer;
use crate::client::mcp::Mcp;
use crate::client::rest::Rest;
use crate::client::stdio::Stdio;
use crate::database::{TestDatabase, engines};
use crate::pool::PooledDatabase;
use crate::prepare::{Fixtures, People, make_samples};
use crate::push_service;
use crate::refusals;
use crate::server::Server;
use crate::unlimited;

/// The time at which every world begins.
pub(crate) const START: Time = Time::from_micros(1_795_000_000_000_000);
/// The key-encryption key of every world.
const KEK: [u8; 32] = [7; 32];

/// The seed of the key with which every world signs.
pub const SIGNS: [u8; 32] = [9; 32];

/// Time between an item in an inbox and its mail in a world.
pub const MAIL_DELAY: Duration = Duration::from_secs(120);

/// The address under which browsers reach every world.
pub const ORIGIN: &str = "https://svc.example.com";

/// The settings for opening a world.
pub struct Setup {
    /// The seed of ids: two worlds with the same seed have the same ids.
    pub seed: u64,
    /// Features in addition to the built-in ones.
    pub features: fn() -> Vec<Feature>,
    /// The source of time of the service.
    pub clock: Clock,
    /// The rate limits; unlimited by default.
    pub rates: RateSettings,
    /// Whether a SQLite database is kept in memory, where writing takes no time, if the machine can do that.
    pub in_memory: bool,
    /// Whether the service gives land advice; true by default.
    pub land_advice: bool,
    /// Whether a session that was not made from a token may mint the first administrator's token.
    pub first_admin: bool,
    /// Whether a person who signs in at a provider becomes the member prepared under the verified email.
    pub link_email: bool,
    /// Whether a person without a member who signs in at a provider becomes a new member.
    pub auto_provision: bool,
    /// Maximum events that are sent to a subscriber ahead, if not the default.
    pub replay_max: Option<usize>,
    /// The time limit of a read; unlimited by default, because tests run on busy machines.
    pub read_budget: Option<Duration>,
    /// Maximum workspaces that a workspace and its copies import in a day; 0 means no limit.
    pub import_workspaces: u32,
    /// Whether the service signs exports and checkpoints; true by default.
    pub signs: bool,
    /// The address that the operator has set, beside that in mails.
    pub public_url: Option<String>,
    /// Whether the service can send mail; true by default. A test runs the chore that sends it.
    pub mail: bool,
    /// Whether browsers can register for web push; true by default.
    pub web_push: bool,
    /// The permitted targets of requests whose address a member has given.
    pub egress: Egress,
    /// The spools for large files and their limits, if not the default.
    pub spools: Option<SpoolFolder>,
    /// The settings of the world's server.
    pub http: HttpSettings,
    /// A function that is called with every statement of an operation.
    pub watcher: Option<Watcher>,
    /// Options of the service's sessions on Postgres, such as `-c enable_seqscan=off`.
    pub postgres_options: Option<&'static str>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            seed: 1,
            features: Vec::new,
            clock: clock(),
            rates: unlimited::RATES,
            in_memory: false,
            land_advice: true,
            first_admin: false,
            link_email: false,
            auto_provision: false,
            replay_max: None,
            read_budget: None,
            import_workspaces: 10,
            signs: true,
            public_url: None,
            mail: true,
            web_push: true,
            egress: Egress::default(),
            spools: None,
            http: HttpSettings::default(),
            watcher: None,
            postgres_options: None,
        }
    }
}

impl Setup {
    /// Returns a setup whose server pushes notifications, also to push services on this machine.
    pub fn pushing() -> Self {
        let egress = Egress { is_open: true };
        let http = HttpSettings { push: Some(push_service::config()), egress, ..HttpSettings::default() };
        Self { egress, http, ..Self::default() }
    }
}

/// A prepared service on its own database.
pub struct World {
    /// The service.
    pub service: Service,
    /// The clock, which moves only when a test moves it, unless the setup has another.
    pub clock: Clock,
    /// The rate limits.
    rates: RateSettings,
    /// The ids of the samples.
    pub fixture: Fixture,
    /// The people, and other objects beside the fixture.
    pub people: People,
    http: HttpSettings,
    server: OnceLock<Server>,
    /// The database, for direct reads and changes; it is dropped last.
    pub database: PooledDatabase,
}

/// Runs `test` in a world on each engine that this run can test.
pub fn on_both_engines(test: impl Fn(&World)) {
    for engine in engines() {
        test(&World::open(engine));
    }
}

/// Opens a service with the settings of tests.
pub(crate) fn open_service(database: &TestDatabase, setup: Setup) -> Service {
    let address = match setup.postgres_options {
        Some(options) if database.engine() == Engine::Postgres => database.address_with(options),
        _ => database.address(),
    };
    open_service_at(address, setup)
}

fn open_service_at(address: Database, setup: Setup) -> Service {
    let mut options = ServiceOptions::new(address, KEK);
    options.mode = OpenMode::Create;
    options.rates = setup.rates;
    options.settings.land_advice = setup.land_advice;
    options.settings.first_admin = setup.first_admin;
    options.settings.oidc_link_email = setup.link_email;
    options.settings.oidc_auto_provision = setup.auto_provision;
    options.settings.replay_max = setup.replay_max.unwrap_or(options.settings.replay_max);
    options.settings.public_url = setup.public_url;
    let mail = MailSettings { delay: MAIL_DELAY, public_url: ORIGIN.to_owned() };
    options.settings.mail = setup.mail.then_some(mail);
    options.reap_tick = None;
    options.read_budget = setup.read_budget;
    options.settings.retention_tick = None;
    options.settings.import_workspaces = NonZeroU32::new(setup.import_workspaces);
    options.settings.signer = setup.signs.then(|| NoteSigner::new(&SIGNS));
    options.settings.known_keys = vec![NoteSigner::new(&SIGNS).public()];
    options.settings.vapid_public_key = setup.web_push.then(push_service::public_key);
    options.settings.egress = setup.egress;
    options.settings.spools = setup.spools.unwrap_or_else(unlimited::spools);
    options.session_key = Some(session_key());
    options.clock = setup.clock;
    options.entropy = Entropy::seeded(setup.seed);
    options.features = (setup.features)();
    options.watcher = setup.watcher;
    Service::with_options(options).unwrap_or_else(|error| panic!("{error}: {:?}", error.cause()))
}

/// Returns the key that signs the cookies of every world.
pub fn session_key() -> SessionKey {
    SessionKey::new(&SecretString::from("the key of every world's cookies")).unwrap()
}

/// Returns a clock that shows the moment at which every world begins.
pub(crate) fn clock() -> Clock {
    Clock::mock(START)
}

impl World {
    /// Returns a world with the default setup.
    pub fn open(engine: Engine) -> Self {
        Self::with(engine, Setup::default())
    }

    /// Returns a world with this setup.
    pub fn with(engine: Engine, setup: Setup) -> Self {
        let database = PooledDatabase::on(engine, setup.in_memory);
        let clock = setup.clock.clone();
        let rates = setup.rates;
        let http = setup.http.clone();
        let service = open_service(&database, setup);
        let Fixtures { mut fixture, people } = database.fixtures().clone();
        // The samples of the setup's own features.
        make_samples(&service, &people.admin, &people.agent, &mut fixture);
        Self { service, clock, rates, fixture, people, http, server: OnceLock::new(), database }
    }

    /// Returns another service on the same database, with the same clock and limits, like that of another
    /// process.
    pub fn another_service(&self, seed: u64) -> Service {
        let clock = self.clock.clone();
        let rates = self.rates;
        open_service(&self.database, Setup { seed, clock, rates, ..Setup::default() })
    }

    /// Returns another service on the same database, with this clock.
    pub fn another_service_by(&self, seed: u64, clock: Clock) -> Service {
        open_service(&self.database, Setup { seed, clock, rates: self.rates, ..Setup::default() })
    }

    /// Returns another service on the same database, at another address and with these limits.
    pub fn another_service_at(&self, address: Database, rates: RateSettings) -> Service {
        open_service_at(address, Setup { seed: 2, clock: self.clock.clone(), rates, ..Setup::default() })
    }

    /// Returns the engine beneath.
    pub fn engine(&self) -> Engine {
        self.database.engine()
    }

    /// Returns the id of a sample.
    #[track_caller]
    pub fn id(&self, sample: &str) -> Uuid {
        self.fixture.get(sample).unwrap_or_else(|| panic!("there is no sample {sample}"))
    }

    /// Returns the operation called `name`.
    pub fn operation(&self, name: &str) -> &Operation {
        self.service.table().operation(name).unwrap_or_else(|| panic!("there is no operation {name}"))
    }

    /// Returns whether the service has the operation `name`.
    pub fn has(&self, name: &str) -> bool {
        self.service.table().operation(name).is_some()
    }

    /// Calls an operation in process.
    pub fn call(&self, token: &str, operation: &str, input: Value) -> Answer {
        let answer = answer_of(call(&self.service, Some(token), operation, &input));
        match self.service.table().operation(operation) {
            Some(operation) => refusals::check(operation, answer),
            None => answer,
        }
    }

    /// Calls an operation in process with any credential.
    pub fn call_by(&self, credential: Credential, operation: &str, input: &Value) -> Answer {
        let request = Request::json(Surface::Rest, credential, input.to_string());
        let row = self.operation(operation);
        let answer = self.service.operation(operation).and_then(|found| self.service.call(found, request));
        refusals::check(row, answer_of(answer))
    }

    /// Signs the bearer of `secret` in, and returns the session.
    #[track_caller]
    pub fn sign_in(&self, secret: &str) -> SessionId {
        let bearer = Credential::Bearer(SecretString::from(secret));
        let made = self.call_by(bearer, "create_session", &json!({"token": secret})).output();
        text(&made["session_id"]).parse().unwrap()
    }

    /// Returns a session of the bearer of the token `token_id`, or one of the admin without a token, for an
    /// hour.
    ///
    /// The latter needs no provider here.
    pub fn new_session(&self, token_id: Option<&str>) -> SessionId {
        match token_id {
            Some(token) => {
                let token = self.database.id(token.parse::<Uuid>().unwrap());
                self.insert_session(
                    &format!("tokens s where s.id = {token}"),
                    "s.member_id, s.id, s.secret_hash, null",
                )
            }
            None => self.new_own_session(&self.id("admin").to_string()),
        }
    }

    /// Returns a session of a member without a token, for an hour.
    pub fn new_own_session(&self, member: &str) -> SessionId {
        let member = self.database.id(member.parse::<Uuid>().unwrap());
        self.insert_session(&format!("members s where s.id = {member}"), "s.id, null, null, 127")
    }

    fn insert_session(&self, source: &str, columns: &str) -> SessionId {
        let id = SessionId::from(Uuid::now_v7());
        let now = self.clock.now().micros();
        let row = self.database.id(id.uuid());
        let end = now + 3_600_000_000;
        self.database.execute(&format!(
            "insert into sessions (id, workspace_id, member_id, token_id, secret_hash, capabilities,
                 created_at, expires_at)
             select {row}, s.workspace_id, {columns}, {now}, {end} from {source}"
        ));
        id
    }

    /// Calls an operation as the admin. The call must succeed.
    #[track_caller]
    pub fn admin(&self, operation: &str, input: Value) -> Value {
        self.call(&self.people.admin, operation, input).output()
    }

    /// Calls an operation as the agent. The call must succeed.
    #[track_caller]
    pub fn agent(&self, operation: &str, input: Value) -> Value {
        self.call(&self.people.agent, operation, input).output()
    }

    /// Lets time pass, and runs all periodic work that is due.
    pub fn pass(&self, span: Duration) {
        self.clock.advance(span);
        self.service.housekeep().unwrap_or_else(|error| panic!("{error}: {:?}", error.cause()));
    }

    /// Returns the address of the world's server, which starts with the first request.
    pub fn address(&self) -> SocketAddr {
        self.server.get_or_init(|| Server::start(self.service.clone(), self.http.clone())).address()
    }

    /// Runs a function that may wait, and lets `span` pass once it waits.
    pub fn once_time_is_over<T: Send>(&self, span: Duration, run: impl FnOnce() -> T + Send) -> T {
        self.once_time_is_over_for(&self.service, span, run)
    }

    /// Runs a function that may wait in a service, and lets `span` pass once it waits there.
    pub fn once_time_is_over_for<T: Send>(
        &self,
        service: &Service,
        span: Duration,
        run: impl FnOnce() -> T + Send,
    ) -> T {
        std::thread::scope(|scope| {
            let running = scope.spawn(run);
            let mut left = Some(span);
            while !running.is_finished() {
                if service.parked_waits() > 0 {
                    left.take().into_iter().for_each(|span| self.clock.advance(span));
                }
                std::thread::park_timeout(Duration::from_millis(1));
            }
            running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Returns a REST client over a real connection.
    pub fn rest(&self) -> Rest {
        Rest { address: self.address() }
    }

    /// Returns an MCP client over a real connection.
    pub fn mcp(&self) -> Mcp {
        Mcp { http: self.rest() }
    }

    /// Returns a new public channel.
    pub fn new_channel(&self, name: &str) -> String {
        let channel = json!({"workspace_id": self.id("workspace"), "name": name});
        text(&self.admin("create_channel", channel)["id"])
    }

    /// Returns a new channel that only its members see.
    pub fn new_private_channel(&self, name: &str) -> String {
        let channel = json!({"workspace_id": self.id("workspace"), "name": name, "private": true});
        text(&self.admin("create_channel", channel)["id"])
    }

    /// Returns a new thread, of the admin, in a channel.
    pub fn new_thread(&self, channel_id: &str, title: &str) -> String {
        text(&self.admin("create_thread", json!({"channel_id": channel_id, "title": title}))["id"])
    }

    /// Returns an MCP client over pipes, for the bearer of `token`.
    pub fn stdio(&self, token: &str) -> Stdio {
        Stdio::start(self.service.clone(), token)
    }

    /// Returns a new agent: its id and the secret of its worker token.
    pub fn new_agent(&self, handle: &str) -> (String, String) {
        let made = self.admin(
            "create_agent",
            json!({"workspace_id": self.id("workspace"), "handle": handle, "display_name": handle}),
        );
        (text(&made["member"]["id"]), text(&made["token"]["secret"]))
    }

    /// Returns the secret of a new token of the admin with these capabilities.
    pub fn new_token(&self, capabilities: Vec<&str>) -> String {
        text(&self.minted(&self.id("admin").to_string(), &capabilities)["secret"])
    }

    fn minted(&self, member: &str, capabilities: &[&str]) -> Value {
        self.admin(
            "mint_token",
            json!({"workspace_id": self.id("workspace"), "member_id": member,
                   "label": "for a test", "capabilities": capabilities}),
        )
    }

    /// Returns the secret of a token by which `delegate` acts for `subject` with any capabilities.
    ///
    /// No grant lends all of them: the columns mark the token as delegated.
    pub fn delegated_beyond_grants(&self, subject: &str, delegate: &str, capabilities: &[&str]) -> String {
        let token = self.minted(delegate, capabilities);
        let row = |id: &str| self.database.id(id.parse::<Uuid>().unwrap());
        let id = row(&text(&token["id"]));
        let subject = row(subject);
        let sql = format!("update tokens set member_id = {subject}, grant_id = id where id = {id}");
        self.database.execute(&sql);
        text(&token["secret"])
    }

    /// Creates a grant by which `delegate` acts for `subject`, for a day, and returns its id.
    pub fn new_grant(&self, subject: &str, delegate: &str, capabilities: &[&str]) -> String {
        let grant = self.admin(
            "create_delegation_grant",
            json!({"workspace_id": self.id("workspace"), "subject": subject, "delegate": delegate,
                   "capabilities": capabilities, "expires_in_secs": 86_400, "purpose": "for a test"}),
        );
        text(&grant["grant_id"])
    }

    /// Exchanges a grant with the bearer's `token`, and returns the secret of the new token, which lasts an
    /// hour.
    pub fn exchange(&self, token: &str, grant: &str) -> String {
        let input = json!({"grant_id": grant, "expires_in_secs": 3600});
        text(&self.call(token, "delegate_token", input).output()["secret"])
    }

    /// Returns the kinds of the events of the workspace's log after `lsn`.
    pub fn kinds_after(&self, lsn: i64) -> Vec<String> {
        let workspace = self.database.id(self.id("workspace"));
        let sql =
            format!("select kind from events where workspace_id = {workspace} and lsn > {lsn} order by lsn");
        self.database.rows(&sql).iter().map(|row| text(&row[0])).collect()
    }

    /// Returns the last position of the workspace's log.
    pub fn lsn(&self) -> i64 {
        let workspace = self.database.id(self.id("workspace"));
        self.database.number(&format!("select lsn from heads where workspace_id = {workspace}"))
    }
}

/// Calls an operation in process.
pub fn call(service: &Service, token: Option<&str>, operation: &str, input: &Value) -> Result<Reply> {
    let credential = token.map(SecretString::from);
    service.call(service.operation(operation)?, Request::json(Surface::Rest, credential, input.to_string()))
}

/// Returns a reply in the form of every client.
pub fn answer_of(reply: Result<Reply>) -> Answer {
    let body = |reply: &Reply| serde_json::from_slice(&reply.body().unwrap()).unwrap();
    let problem = |error: &Error| serde_json::to_value(error.problem()).unwrap();
    let (status, body) = match &reply {
        Ok(reply) => (reply.status, body(reply)),
        Err(error) => {
            let cause = error.cause().map(|cause| cause.to_string());
            let mut problem = problem(error);
            if let Some(cause) = cause {
                problem["cause"] = cause.into();
            }
            (error.code().status(), problem)
        }
    };
    Answer { status, headers: http::HeaderMap::new(), body }
}

/// Returns the string in a value.
#[track_caller]
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("expected a string, found {value}")).to_owned()
}
