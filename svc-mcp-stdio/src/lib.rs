//! Implements the Model Context Protocol for the service.
//!
//! One router implements the methods of all revisions for every transport, and the transports do the framing.
//! This crate contains the transport over standard input and output; the HTTP transports are in `svc-http`.
//! The crate rmcp defines the protocol types.

pub mod wire;
pub mod revision;
pub mod refusal;
pub mod response;
mod log_level;
pub mod notifier;
mod address;
pub mod connection;
mod principal;
pub mod profiles;
pub mod tool_filter;
mod catalogue;
pub mod card;
pub mod request_context;
pub mod handler;
pub mod router;
mod service;
mod lines;
pub mod config_print;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use rustix::process::Signal;
use secrecy::SecretString;
use svc_core::config::{Config, LogFormat};
use svc_core::{Error, Result, Service, setup};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub use log_level::LogLevel;
pub use principal::{Principal, head};
use refusal::Refusal;
use revision::Revision;
use router::Router;
pub use service::NotificationPart;
use service::ServiceHandler;
use tool_filter::{ToolChoice, ToolFilter};

/// Returns a router whose tools are the operations of a service.
pub fn router(service: &Service) -> Router {
    Router::new(Arc::new(ServiceHandler::new(service.clone())))
}

/// Returns a stream of notifications for the resources `uris` and for the subscriptions of the caller's
/// token.
///
/// The stream begins after the position `after` in the log, or at the end of the log, and the first item
/// contains that position. If the log no longer contains the next events, the stream begins with
/// notifications for everything that may have changed. The stream ends when the caller's credential ends. If
/// the caller cannot read one of the resources, fails with the error of that read.
pub async fn notifications(
    service: &Service,
    caller: &Principal,
    revision: Revision,
    uris: Vec<String>,
    after: Option<i64>,
) -> std::result::Result<BoxStream<'static, NotificationPart>, Refusal> {
    ServiceHandler::new(service.clone()).notifications(caller, revision, uris, after).await
}

/// Serves one caller over a pair of byte streams.
///
/// Returns when the input has ended and all running requests are answered. Fails immediately if the token is
/// not live.
pub async fn serve<R, W>(service: Service, token: SecretString, view: ToolFilter, pipes: (R, W)) -> Result<()>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    lines::serve(&service, router(&service), token, view, pipes).await
}

/// Runs the whole program: starts logging, opens the service, and serves until standard input ends.
///
/// The diagnostic log is written to standard error. `config` describes the service and contains the caller's
/// token, and `choice` selects the caller's tools. The service is closed at the end.
pub fn run_stdio(config: &Config, choice: &ToolChoice) -> Result<()> {
    let token = config.token()?;
    start_logging(config)?;
    let service = setup::open(config)?;
    let view = ToolFilter::chosen(service.table(), choice).map_err(Error::malformed)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    let outcome =
        runtime.block_on(async { serve(service, token, view, rmcp::transport::stdio_pipes()).await });
    // A pending read of standard input must not keep the process alive.
    runtime.shutdown_background();
    outcome
}

/// Makes writes beyond the file size limit (`ulimit -f`) fail instead of ending the process.
///
/// The process handles SIGXFSZ, so that such a write fails like a write to a full disk.
pub fn handle_file_size_signal() -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    let _entered = runtime.enter();
    // Installing the handler is enough. The handler stays installed after the runtime has ended, and no code
    // has to react to the signal.
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop).map_err(Error::internal)
}

/// Reports a fatal error on standard error, and returns the exit code that svc(1) lists for the error.
///
/// The report is one line that contains all causes.
pub fn report_fatal_error(program: &str, error: &Error) -> ExitCode {
    // If standard error is closed, the error cannot be reported.
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
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(false);
    match config.log_format {
        LogFormat::Text => registry.with(lines).init(),
        LogFormat::Json => registry.with(lines.json()).init(),
    }
    for remark in &config.remarks {
        tracing::info!("{remark}");
    }
    Ok(())
}

/// Returns whether a log record contains no secrets and may be written.
///
/// The libraries for MCP and WebSocket log whole messages, including tokens, so only the errors of these
/// libraries are written, whatever filter is set.
fn is_safe_to_log(metadata: &Metadata<'_>) -> bool {
    match metadata.target().split("::").next() {
        Some("rmcp" | "tungstenite" | "tokio_tungstenite") => *metadata.level() == Level::ERROR,
        _ => true,
    }
}
