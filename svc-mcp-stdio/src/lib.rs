//! The Model Context Protocol on top of the service: the server itself, which any transport can mount, and the
//! transport over standard input and output. rmcp speaks the protocol; this crate says what is offered, and does
//! what rmcp leaves out: it answers what is not a message, and takes batches.

mod catalogue;
mod connection;
pub mod permits;
mod server;
pub mod wire;

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
pub use server::{Mcp, Principal, head, large_wait};

/// Serves one caller, the bearer of `token`, on standard input and output until the input ends and everything that
/// came in is answered.
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
    // Directly: both eras share the pipe, and a message before the handshake must not end the process.
    let running = serve_directly(mcp, Connection::start(reader, writer, end), None);
    running.waiting().await.map_err(Error::internal)?;
    Ok(())
}

/// What a process of its own does: begins the trace on standard error, opens the service that `config` describes and
/// serves the bearer of its token until standard input ends. Then closes the service.
pub fn process(config: &Config) -> Result<()> {
    let token = config.token.clone().ok_or_else(|| {
        Error::new(
            Code::Unauthenticated,
            "set SVC_TOKEN, or SVC_TOKEN_FILE to a file with the token to act as",
        )
    })?;
    start_trace(config)?;
    let service = setup::open(config)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    let outcome = runtime.block_on(serve_stdio(service, token));
    // A read of standard input that nobody will answer must not keep the process.
    runtime.shutdown_background();
    outcome
}

/// From here on a file that has come to the limit of sizes (`ulimit -f`) is like a full disk: a write to it fails, and
/// does not end the process.
pub fn outlive_size_limit() -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    let _entered = runtime.enter();
    // That the signal is caught is enough. It stays so without the runtime, and nobody has to hear of it.
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop).map_err(Error::internal)
}

/// Ends a program that was refused: one line on standard error, with every cause, and the exit code of svc(1).
pub fn refuse(program: &str, error: &Error) -> ExitCode {
    // Where standard error is closed there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{program}: {}", error.line());
    ExitCode::from(error.code().exit_code())
}

/// Starts the trace of a process, on standard error: standard output belongs to the protocol, or to what a program
/// announces.
pub fn start_trace(config: &Config) -> Result<()> {
    let wanted =
        EnvFilter::try_new(&config.log).map_err(|error| Error::configuration(format!("SVC_LOG: {error}")))?;
    let trace = tracing_subscriber::registry().with(wanted).with(filter_fn(shows_no_token));
    let lines = layer().with_writer(io::stderr).with_ansi(false);
    match config.log_format {
        LogFormat::Text => trace.with(lines).init(),
        LogFormat::Json => trace.with(lines.json()).init(),
    }
    Ok(())
}

/// What speaks MCP and WebSocket for us traces whole messages, with the tokens in them. So of that only errors are
/// shown, whatever is wanted; and not that an answer found nobody, which says only that a client has left.
fn shows_no_token(traced: &Metadata<'_>) -> bool {
    let mut modules = traced.target().split("::");
    match modules.next() {
        Some("rmcp") => *traced.level() == Level::ERROR && modules.next() != Some("service"),
        Some("tungstenite" | "tokio_tungstenite") => *traced.level() == Level::ERROR,
        _ => true,
    }
}
