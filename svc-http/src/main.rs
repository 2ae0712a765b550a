//! `svc-http`: reads the configuration, opens the service, serves it, and shuts down gracefully on a signal.
//!
//! The first line on standard output contains the address. The diagnostic log goes to standard error.

mod dev;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use mimalloc::MiMalloc;
use svc_core::config::Config;
use svc_core::data_dir::PublishedAddress;
use svc_core::setup::{self, Established, Variables};
use svc_core::{Code, Error, Result, Service, data_dir};
use svc_http::{HttpSettings, listen, raise_descriptor_limit, serve};
use svc_mcp_stdio::{handle_file_size_signal, report_fatal_error, start_logging};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;

// Uses mimalloc because memory that one thread allocates is often freed by another: a request is read, run
// and answered on different threads. Only Rust code uses mimalloc. C code, including SQLite, uses the
// allocator of the C library, because replacing that one crashes under preloaded libraries such as
// libfaketime.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Serve the Agent Collaboration Service over HTTP: REST, WebSocket and MCP.
///
/// Settings come from the environment and from svc.env in the data folder; see svc-env(7).
#[derive(Parser)]
#[command(name = "svc-http", version)]
struct Cli {
    /// The folder with the settings, the keys and, unless DATABASE_URL is set, the database.
    #[arg(long, value_name = "DIR", default_value = data_dir::DEFAULT)]
    data: PathBuf,
    /// Address and port to listen on; overrides SVC_LISTEN_ADDR. Port 0 picks a free port.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Set up the data folder if necessary, and print the link of the board, the tokens and an MCP client
    /// configuration.
    #[arg(long)]
    dev: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_fatal_error("svc-http", &error),
    }
}

fn run(cli: &Cli) -> Result<()> {
    handle_file_size_signal()?;
    let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let config = Config::read(variables.iter().cloned(), &cli.data)?;
    start_logging(&config)?;
    let (config, service, made) =
        if cli.dev { open_or_set_up(&variables, cli)? } else { open(&variables, config)? };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::internal)?;
    let outcome = runtime.block_on(listen_and_serve(cli, &config, service.clone(), made));
    // Aborted tasks must not keep the process alive. The service closes when its last handle is dropped.
    runtime.shutdown_background();
    drop(service);
    outcome
}

#[cfg(not(feature = "bootstrap"))]
fn open(_: &Variables, config: Config) -> Result<(Config, Service, Option<Established>)> {
    let service = setup::open(&config)?;
    Ok((config, service, None))
}

#[cfg(feature = "bootstrap")]
fn open(variables: &Variables, config: Config) -> Result<(Config, Service, Option<Established>)> {
    let (config, service) = setup::open_or_create(variables, &config.data_dir)?;
    Ok((config, service, None))
}

/// Opens the service for `--dev`, after setting up the data folder if necessary.
fn open_or_set_up(variables: &Variables, cli: &Cli) -> Result<(Config, Service, Option<Established>)> {
    match setup::init(variables, &cli.data, dev::FIRST_WORKSPACE_NAME, dev::FIRST_ADMIN_HANDLE) {
        Ok((config, service, made)) => Ok((config, service, Some(made))),
        Err(error) if error.code() == Code::AlreadyInitialised => {
            let config = Config::read(variables.iter().cloned(), &cli.data)?;
            let service = setup::open(&config)?;
            Ok((config, service, None))
        }
        Err(error) => Err(error),
    }
}

async fn listen_and_serve(
    cli: &Cli,
    config: &Config,
    service: Service,
    setup: Option<Established>,
) -> Result<()> {
    let shutdown_requested = handle_signals(config.shutdown_drain.saturating_add(EXIT_TIMEOUT))?;
    let wanted = cli.listen.unwrap_or(config.listen_addr);
    let cannot = |error: io::Error| listen_error(wanted, &error);
    let listener = listen(wanted).map_err(cannot)?;
    let address = listener.local_addr().map_err(Error::internal)?;
    let _listening = publish_address(&config.data_dir, address);
    let mut greeting = format!("listening on http://{address}\n");
    if cli.dev {
        greeting.push_str(&dev::greeting(
            &cli.data,
            (address, config.public_url.as_ref()),
            setup.as_ref(),
            &svc_mcp_stdio::config_print::inherited_variables(),
        ));
    }
    let mut out = io::stdout().lock();
    out.write_all(greeting.as_bytes()).and_then(|()| out.flush()).map_err(Error::internal)?;
    drop(out);
    let shutdown = async {
        // The sender is kept until the first signal, so the receiver does not fail before that.
        let _ = shutdown_requested.await;
    };
    let settings = HttpSettings::from(config).limited_by_descriptors(raise_descriptor_limit());
    serve(service, listener, settings, shutdown).await.map_err(Error::internal)
}

/// Returns the error for an address that cannot be bound, with advice on what to change.
fn listen_error(address: SocketAddr, error: &io::Error) -> Error {
    let next = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                ": stop the program that listens there (see `ss -ltnp sport = :{}`), or choose another port",
                address.port()
            )
        }
        io::ErrorKind::PermissionDenied => {
            ": choose a port from 1024 on, or give the program CAP_NET_BIND_SERVICE".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            ": this machine has no such address; 0.0.0.0 listens on all of its addresses".to_owned()
        }
        _ => String::new(),
    };
    Error::configuration(format!("cannot listen on {address}: {error}{next}"))
}

/// Writes the server's address to the data folder, for the links that `svc token mint` prints.
///
/// Without this file, the links contain the configured address.
fn publish_address(data: &Path, address: SocketAddr) -> Option<PublishedAddress> {
    let left = data.is_dir().then(|| PublishedAddress::leave(data, address))?;
    left.inspect_err(|error| tracing::warn!(reason = error.detail(), "the address was not recorded")).ok()
}

/// Maximum time from the end of the drain until the process exits, even if requests are still running.
const EXIT_TIMEOUT: Duration = Duration::from_secs(14);

/// Installs the handlers for SIGINT and SIGTERM, and returns a receiver that resolves at the first signal.
///
/// The first signal requests a graceful shutdown. After that, a second signal or the expiry of the time
/// `max_shutdown` ends the process immediately. A separate thread handles the signals, so that they work even
/// while the process is blocked on a database that does not respond.
fn handle_signals(max_shutdown: Duration) -> Result<oneshot::Receiver<()>> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    let entered = runtime.enter();
    let mut interrupt = signal_stream(SignalKind::interrupt())?;
    let mut terminate = signal_stream(SignalKind::terminate())?;
    drop(entered);
    let (request_shutdown, shutdown_requested) = oneshot::channel();
    let body = move || {
        runtime.block_on(async {
            wait_for_either_signal(&mut interrupt, &mut terminate).await;
            tracing::info!("shutting down: finishing the requests in progress; a second signal ends at once");
            // If the receiver is gone, the server has already stopped.
            let _ = request_shutdown.send(());
            if timeout(max_shutdown, wait_for_either_signal(&mut interrupt, &mut terminate)).await.is_err() {
                tracing::warn!("the process did not end in time; requests in progress are aborted");
            }
        });
        std::process::exit(0);
    };
    std::thread::Builder::new().name("svc-signals".to_owned()).spawn(body).map_err(Error::internal)?;
    Ok(shutdown_requested)
}

fn signal_stream(kind: SignalKind) -> Result<Signal> {
    signal(kind).map_err(Error::internal)
}

async fn wait_for_either_signal(first: &mut Signal, second: &mut Signal) {
    tokio::select! {
        _ = first.recv() => {}
        _ = second.recv() => {}
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        for line in ["svc-http", "svc-http --dev", "svc-http --data d --listen 127.0.0.1:0"] {
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        assert!(Cli::try_parse_from(["svc-http", "--listen", "nowhere"]).is_err());
    }
}
