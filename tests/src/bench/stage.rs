//! The stage of every benchmark: a service with one workspace, channel and thread, called in process.

use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::id::{ChannelId, MemberId, ThreadId, WorkspaceId};
use svc_core::op::{Request, Surface};
use svc_core::signed_note::NoteSigner;
use svc_core::time::Clock;
use svc_core::{Engine, OpenMode, RateSettings, Service, ServiceOptions};

use crate::database::TestDatabase;
use crate::world::SIGNS;

/// A prepared service.
#[derive(Clone)]
pub struct Stage {
    pub service: Service,
    pub token: String,
    pub workspace_id: WorkspaceId,
    pub admin_id: MemberId,
    pub channel_id: ChannelId,
    pub thread_id: ThreadId,
}

/// Returns the body of a benchmark's n-th message: 300 characters.
pub fn body(number: usize) -> String {
    format!("{number:08} {}", "the quick brown fox jumps over the lazy dog ".repeat(7))
        .chars()
        .take(300)
        .collect()
}

impl Stage {
    /// Sets a service up on `database`.
    pub fn build(database: &TestDatabase) -> Self {
        Self::build_at(database, Clock::system())
    }

    /// Sets a service up on `database` with this clock.
    pub fn build_at(database: &TestDatabase, clock: Clock) -> Self {
        Self::build_where(database, |options| options.clock = clock)
    }

    /// Sets a service up on `database` with changed options.
    pub fn build_where(database: &TestDatabase, change: impl FnOnce(&mut ServiceOptions)) -> Self {
        let mut options = ServiceOptions::new(database.address(), [7; 32]);
        options.mode = OpenMode::Create;
        let signer = NoteSigner::new(&SIGNS);
        options.settings.known_keys = vec![signer.public()];
        options.settings.signer = Some(signer);
        options.rates = RateSettings { per_client: 0, per_workspace: 0, ..RateSettings::default() };
        change(&mut options);
        let service = Service::with_options(options).expect("the service opens");
        let made = service.establish("bench", "admin").expect("the set-up");
        let token = made.token.secret.clone();
        let mut stage = Self {
            service,
            token,
            workspace_id: made.workspace.id,
            admin_id: made.admin.id,
            channel_id: uuid::Uuid::nil().into(),
            thread_id: uuid::Uuid::nil().into(),
        };
        let channel =
            stage.call("create_channel", json!({"workspace_id": stage.workspace_id, "name": "bench"}));
        stage.channel_id = id(&channel);
        let thread = stage.call("create_thread", json!({"channel_id": stage.channel_id, "title": "bench"}));
        stage.thread_id = id(&thread);
        stage
    }

    /// Calls an operation as the admin.
    pub fn call(&self, operation: &str, input: Value) -> Value {
        let reply = self
            .service
            .call(self.service.operation(operation).expect("an operation"), request(&self.token, &input))
            .expect("a success");
        serde_json::from_slice(&reply.body().expect("a body")).expect("JSON")
    }

    /// Calls an operation as the holder of `token`, from asynchronous code.
    pub async fn ask(&self, token: &str, operation: &str, input: Value) -> Value {
        let reply = self
            .service
            .ask(self.service.operation(operation).expect("an operation"), request(token, &input))
            .await
            .expect("a success");
        serde_json::from_slice(&reply.body().expect("a body")).expect("JSON")
    }

    /// Returns the engine of a database.
    pub fn engine(database: &TestDatabase) -> Engine {
        database.engine()
    }

    /// Returns the stored hash of the admin's secret.
    pub fn secret_hash(&self) -> [u8; 32] {
        svc_core::hash::sha256(self.token.as_bytes())
    }
}

/// Returns the id of a returned object.
pub fn id<T: From<uuid::Uuid>>(object: &Value) -> T {
    let text = object.get("id").and_then(Value::as_str).expect("an id");
    text.parse::<uuid::Uuid>().expect("a UUID").into()
}

fn request(token: &str, input: &Value) -> Request {
    let credential = Some(SecretString::from(token.to_owned()));
    Request::json(Surface::Rest, credential, serde_json::to_vec(input).expect("JSON"))
}
