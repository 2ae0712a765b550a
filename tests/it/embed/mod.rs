//! Programs that embed the service: opening it, and calling operations as its members.

mod calls;
mod claims;
mod events;
mod killed;
mod opening;
mod workers;

use svc_core::{Builder, Database, Engine, Established, Member, Service};
use svc_tests::database::{TestDatabase, engines};
use tempfile::TempDir;

/// A service that a program has set up in a folder.
struct Embedded {
    service: Service,
    established: Established,
    /// The administrator of the workspace.
    admin: Member,
    /// The agent of the workspace.
    agent: Member,
    place: Place,
}

/// The folder and the database of a service.
struct Place {
    folder: TempDir,
    database: TestDatabase,
}

impl Place {
    fn new(engine: Engine) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), database: TestDatabase::on(engine) }
    }

    /// Returns the options for opening the service of this place.
    fn builder(&self) -> Builder {
        let builder = Service::builder().folder(self.folder.path().join("data"));
        match self.database.address() {
            Database::Postgres(url) => builder.postgres(secrecy::ExposeSecret::expose_secret(&url)),
            Database::Sqlite(_) => builder,
        }
    }
}

impl Embedded {
    fn new(engine: Engine) -> Self {
        Self::with(engine, |builder| builder)
    }

    /// Sets a service up with the options that `adjust` returns.
    fn with(engine: Engine, adjust: impl FnOnce(Builder) -> Builder) -> Self {
        let place = Place::new(engine);
        let (service, established) = adjust(place.builder()).create("Team", "ada").unwrap();
        let admin = service.member(&established.token.secret).unwrap();
        let agent = service.member(&established.agent_token.secret).unwrap();
        Self { service, established, admin, agent, place }
    }
}

/// Runs a test on every engine.
fn on_engines(test: impl Fn(Engine)) {
    engines().into_iter().for_each(test);
}
