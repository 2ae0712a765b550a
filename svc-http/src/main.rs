//! `svc-http`: reads the configuration, opens the service, serves it, and ends in order on a signal. The first line
//! on standard output is the address; the trace goes to standard error.

mod dev;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;
use svc_core::config::Config;
use svc_core::setup::{self, Established, Variables};
use svc_core::{Code, Error, Result, Service, data_dir};
use svc_http::{HttpSettings, listen, raise_descriptors, serve};
use svc_mcp_stdio::{outlive_size_limit, refuse, start_trace};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// What one thread allocates another often frees here: a request is made, run and answered on different ones.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Serve the Agent Collaboration Service over HTTP: REST, WebSocket and MCP. Settings come from the environment and
/// from svc.env in the data folder; see svc-env(7).
#[derive(Parser)]
#[command(name = "svc-http", version)]
struct Cli {
    /// The data folder.
    #[arg(long, value_name = "DIR", default_value = data_dir::DEFAULT)]
    data: PathBuf,
    /// Address and port to serve on, before SVC_LISTEN_ADDR. Port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Set the data folder up if it is not yet, and print the tokens and an MCP client configuration.
    #[arg(long)]
    dev: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse("svc-http", &error),
    }
}

fn run(cli: &Cli) -> Result<()> {
    outlive_size_limit()?;
    let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let config = Config::read(variables.iter().cloned(), &cli.data)?;
    start_trace(&config)?;
    let (config, service, made) =
        if cli.dev { open_or_set_up(&variables, cli)? } else { open(&variables, config)? };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::internal)?;
    let outcome = runtime.block_on(listen_and_serve(cli, &config, service.clone(), made));
    // What was cut off must not keep the process; the service closes in order when its last handle goes.
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
    let (config, service) = setup::open_or_begin(variables, &config.data_dir)?;
    Ok((config, service, None))
}

/// What `--dev` does before it serves.
fn open_or_set_up(variables: &Variables, cli: &Cli) -> Result<(Config, Service, Option<Established>)> {
    match setup::init(variables, &cli.data, dev::WORKSPACE, dev::ADMIN) {
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
    made: Option<Established>,
) -> Result<()> {
    let asked = signals()?;
    let wanted = cli.listen.unwrap_or(config.listen_addr);
    let cannot = |error: io::Error| Error::configuration(format!("{wanted} cannot be served on: {error}"));
    let listener = listen(wanted).map_err(cannot)?;
    let address = listener.local_addr().map_err(Error::internal)?;
    let mut greeting = format!("listening on http://{address}\n");
    if cli.dev {
        greeting.push_str(&dev::greeting(&cli.data, address, made.as_ref(), &dev::inherited()));
    }
    let mut out = io::stdout().lock();
    out.write_all(greeting.as_bytes()).and_then(|()| out.flush()).map_err(Error::internal)?;
    drop(out);
    let shutdown = async {
        // The other half is kept until the first signal.
        let _ = asked.await;
    };
    let settings = HttpSettings::from(config).within(raise_descriptors());
    serve(service, listener, settings, shutdown).await.map_err(Error::internal)
}

/// From here on a signal asks for an orderly end: the receiver hears of it. A second one ends the process wherever
/// it is, be it in a call to a database that says nothing, so the signals have a thread of their own until the end.
fn signals() -> Result<oneshot::Receiver<()>> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    let entered = runtime.enter();
    let (mut interrupt, mut terminate) =
        (listen_for(SignalKind::interrupt())?, listen_for(SignalKind::terminate())?);
    drop(entered);
    let (ask, asked) = oneshot::channel();
    let body = move || {
        runtime.block_on(async {
            either(&mut interrupt, &mut terminate).await;
            tracing::info!("ending: finishing what is under way; a second signal ends at once");
            // Where nobody hears, the end has come by itself.
            let _ = ask.send(());
            either(&mut interrupt, &mut terminate).await;
        });
        std::process::exit(0);
    };
    std::thread::Builder::new().name("svc-signals".to_owned()).spawn(body).map_err(Error::internal)?;
    Ok(asked)
}

fn listen_for(kind: SignalKind) -> Result<Signal> {
    signal(kind).map_err(Error::internal)
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
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
