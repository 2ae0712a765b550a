//! The Model Context Protocol on top of the service.
//!
//! It has the server, which any transport can mount, and the transport over standard input and output. rmcp
//! implements the protocol; this crate declares what is offered and adds what rmcp leaves out: error
//! responses to payloads that are not messages, and batches.

pub mod wire;
mod permits;
mod principal;
mod catalogue;
mod server;
mod connection;

use std::io::{self, Write as _};
use std::process::ExitCode;

use rmcp::service::serve_directly;
use rustix::process::Signal;
use secrecy::SecretString;
use svc_core::config::{Config, LogFormat};
use svc_core::{Code, Error, Result, Service, setup};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use connection::Connection;
pub use principal::{Principal, head};
pub use server::{CalledTool, Mcp, large_wait};

/// Serves one caller, the bearer of `token`, on standard input and output.
///
/// Returns when the input has ended and every request has a response.
pub async fn serve_stdio(service: Service, token: SecretString) -> Result<()> {
    let (reader, writer) = rmcp::transport::stdio_pipes();
    serve(service, token, reader, writer).await
}

/// Serves one caller on any pair of byte streams.
pub async fn serve<R, W>(service: Service, token: SecretString, reader: R, writer: W) -> Result<()>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (end, ended) = watch::channel(false);
    let mcp = Mcp::for_one(service, token, ended)?;
    // Without rmcp's handshake: newer revisions have none, and a message that precedes it must not end the
    // process.
    let running = serve_directly(mcp, Connection::start(reader, writer, end), None);
    running.waiting().await.map_err(Error::internal)?;
    Ok(())
}

/// Runs a whole process: starts the log, opens the service and serves until standard input ends.
///
/// The log goes to standard error. The service is the one that `config` describes, the caller the bearer of
/// its token. Closes the service at the end.
pub fn process(config: &Config) -> Result<()> {
    let token = config.token.clone().ok_or_else(|| {
        Error::new(
            Code::Unauthenticated,
            "set SVC_TOKEN, or SVC_TOKEN_FILE to a file with the token to act as",
        )
    })?;
    start_logging(config)?;
    let service = setup::open(config)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    let outcome = runtime.block_on(serve_stdio(service, token));
    // A pending read of standard input must not keep the process alive.
    runtime.shutdown_background();
    outcome
}

/// Makes writes beyond the file size limit (`ulimit -f`) fail instead of ending the process.
///
/// It catches SIGXFSZ, so such a write is handled like one to a full disk.
pub fn outlive_size_limit() -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    let _entered = runtime.enter();
    // Installing the handler is enough. It stays installed without the runtime, and nothing has to react to
    // it.
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop).map_err(Error::internal)
}

/// Reports a fatal error on standard error and returns its exit code of svc(1).
///
/// The report is one line with every cause.
pub fn refuse(program: &str, error: &Error) -> ExitCode {
    // If standard error is closed there is nowhere to report it.
    let _ = writeln!(io::stderr().lock(), "{program}: {}", error.line());
    ExitCode::from(error.code().exit_code())
}

/// Starts the diagnostic log of the process, on standard error.
///
/// Standard output is reserved for the protocol, or for the results of a program.
pub fn start_logging(config: &Config) -> Result<()> {
    let wanted =
        EnvFilter::try_new(&config.log).map_err(|error| Error::configuration(format!("SVC_LOG: {error}")))?;
    let registry = tracing_subscriber::registry().with(wanted).with(filter_fn(is_safe_to_log));
    let lines = layer().with_writer(io::stderr).with_ansi(false);
    match config.log_format {
        LogFormat::Text => registry.with(lines).init(),
        LogFormat::Json => registry.with(lines.json()).init(),
    }
    Ok(())
}

/// Returns whether a log record is safe to write.
///
/// The libraries for MCP and WebSocket log whole messages, with the tokens in them, so only their errors are
/// written, whatever the filter says. Errors of `rmcp::service` are left out too: they only say that a client
/// has disconnected before its response.
fn is_safe_to_log(metadata: &Metadata<'_>) -> bool {
    let mut modules = metadata.target().split("::");
    match modules.next() {
        Some("rmcp") => *metadata.level() == Level::ERROR && modules.next() != Some("service"),
        Some("tungstenite" | "tokio_tungstenite") => *metadata.level() == Level::ERROR,
        _ => true,
    }
}
