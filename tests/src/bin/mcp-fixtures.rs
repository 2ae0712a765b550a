//! Serves the fixtures of the conformance suite over HTTP, on a free port, until standard input ends.
//!
//! The first line that it prints is the address.

use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use svc_core::{Database, OpenMode, Service, ServiceOptions};
use svc_http::HttpSettings;
use svc_mcp_stdio::router::Router;
use svc_tests::mcp_fixtures::Fixtures;
use svc_tests::runtime;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let database = Database::Sqlite(folder.path().join("svc.db"));
    let service = Service::with_options(ServiceOptions {
        mode: OpenMode::Create,
        ..ServiceOptions::new(database, [7; 32])
    })?;
    service.establish("home", "ada")?;
    // The suite sends no credential.
    let settings = HttpSettings { auth_disabled: true, ..HttpSettings::default() };
    let (end, ended) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        // A broken standard input counts as ended.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        let _ = end.send(());
    });
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}/mcp", listener.local_addr()?);
        io::stdout().flush()?;
        let router = Router::new(Arc::new(Fixtures::default()));
        let shutdown = async { drop(ended.await) };
        svc_http::serve_with_router(service, router, listener, settings, shutdown).await
    })?;
    Ok(())
}
