//! The Model Context Protocol on top of the service.
//!
//! One router implements the methods of all revisions for every transport; transports frame bytes. The
//! transport over standard input and output is here, those over HTTP are in `svc-http`. The types of the
//! protocol come from rmcp's model.

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

/// Returns the router over a service.
pub fn router(service: &Service) -> Router {
    Router::new(Arc::new(ServiceHandler::new(service.clone())))
}

/// Returns the notifications for these addresses, and for the subscriptions of the caller's token.
///
/// The stream begins after a position of the log, or now, and its first part has that position; if the log no
/// longer has the next events, it begins with everything that may have changed. It ends when the credential
/// does. Fails as reading one of the addresses would.
pub async fn notifications(
    service: &Service,
    caller: &Principal,
    revision: Revision,
    uris: Vec<String>,
    after: Option<i64>,
) -> std::result::Result<BoxStream<'static, NotificationPart>, Refusal> {
    ServiceHandler::new(service.clone()).notifications(caller, revision, uris, after).await
}

/// Serves one caller on any pair of byte streams.
///
/// Returns when the input has ended and all running requests are answered. Fails at once if the token is
/// dead.
pub async fn serve<R, W>(service: Service, token: SecretString, view: ToolFilter, pipes: (R, W)) -> Result<()>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    lines::serve(&service, router(&service), token, view, pipes).await
}

/// Runs a whole process: starts the log, opens the service and serves until standard input ends.
///
/// The log goes to standard error. `config` describes the service and has the token of the caller, who gets
/// the chosen tools. Closes the service at the end.
pub fn process(config: &Config, choice: &ToolChoice) -> Result<()> {
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
/// It catches SIGXFSZ, so such a write is handled like one to a full disk.
pub fn outlive_size_limit() -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    let _entered = runtime.enter();
    // Installing the handler is enough. It stays installed without the runtime, and nothing has to handle the
    // signal.
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

/// Returns whether a log record is safe to write.
///
/// The libraries for MCP and WebSocket log whole messages, including tokens, so only their errors are
/// written, whatever the filter says.
fn is_safe_to_log(metadata: &Metadata<'_>) -> bool {
    match metadata.target().split("::").next() {
        Some("rmcp" | "tungstenite" | "tokio_tungstenite") => *metadata.level() == Level::ERROR,
        _ => true,
    }
}
