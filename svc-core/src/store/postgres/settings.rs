//! How sessions with a server are opened: the settings of every one of them, from a `postgres://` address.

use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::tls;
use crate::error::{Error, Result};
use crate::limits::{
    CONNECT_TIMEOUT, IDLE_IN_TRANSACTION_TIMEOUT, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_RETRIES,
    LOCK_TIMEOUT, RATE_LIMIT_SHARING_TIMEOUT, STATEMENT_TIMEOUT, TCP_USER_TIMEOUT,
};

/// A server, and how sessions with it are opened.
#[derive(Clone)]
pub(crate) struct Server {
    config: Config,
    tls: MakeRustlsConnect,
}

type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// Reads the settings of a server from a `postgres://` address.
pub(crate) fn parse_url(url: &SecretString) -> Result<Server> {
    let (address, proof) = tls::of_address(url.expose_secret())?;
    let mut config: Config = address.expose_secret().parse().map_err(|error: tokio_postgres::Error| {
        Error::malformed(
            "DATABASE_URL is not an address of the form postgres://user:password@host:port/database",
        )
        .caused_by(error)
    })?;
    // A Unix socket needs no TLS, and has none.
    let is_local = config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
    config.ssl_mode(if is_local { SslMode::Disable } else { proof.mode() });
    // A plan made and cached while a table was empty would scan it for ever. Every statement of the service
    // has an index to use, and statistics must not keep the planner from it; nor may it read a range of an
    // index whole, as a bitmap, where the statement takes the first rows of its order.
    let options = format!(
        "-c synchronous_commit=on -c statement_timeout={} -c lock_timeout={} \
         -c idle_in_transaction_session_timeout={} -c jit=off -c enable_seqscan=off -c enable_bitmapscan=off",
        STATEMENT_TIMEOUT.as_millis(),
        LOCK_TIMEOUT.as_millis(),
        IDLE_IN_TRANSACTION_TIMEOUT.as_millis(),
    );
    let options = match config.get_options() {
        Some(given) => format!("{options} {given}"),
        None => options,
    };
    config.options(options).application_name("svc");
    detect_dead_peers(&mut config);
    Ok(Server { config, tls: proof.connector()? })
}

impl Server {
    /// Opens a connection, with TLS if the address asks for it.
    pub(super) async fn connect(
        &self,
    ) -> std::result::Result<(Client, Connection<Socket, Stream>), tokio_postgres::Error> {
        self.config.connect(self.tls.clone()).await
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the same server, with sessions that have no time limits for statements.
    pub fn without_timeouts(&self) -> Self {
        self.with("", "-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0")
    }

    /// Returns the same server, with sessions that plan each statement once.
    ///
    /// A commit runs the same few statements again and again, and to plan most of them takes longer than to
    /// run them.
    pub fn planned_once(&self) -> Self {
        self.with("-c plan_cache_mode=force_generic_plan", "")
    }

    /// Returns the same server, with sessions whose statements somebody waits for who can do without them.
    pub fn briefly(&self) -> Self {
        let millis = RATE_LIMIT_SHARING_TIMEOUT.as_millis();
        let options = format!("-c statement_timeout={millis} -c lock_timeout={millis}");
        self.with("-c plan_cache_mode=force_generic_plan", &options)
    }

    /// Returns the same server, with sessions that can change nothing.
    pub fn read_only(&self) -> Self {
        self.with("", "-c default_transaction_read_only=on")
    }

    /// Adds options before and after those there are. The server uses the last of two.
    fn with(&self, before: &str, after: &str) -> Self {
        let mut server = self.clone();
        let options = [before, self.config.get_options().unwrap_or_default(), after].join(" ");
        server.config.options(options.trim());
        server
    }
}

/// Lets the kernel detect that a server is gone, unless the address says otherwise.
///
/// Without it, a host that lost power is waited for as long as TCP retransmits, a quarter of an hour.
fn detect_dead_peers(config: &mut Config) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(TCP_USER_TIMEOUT);
    }
    let default = Config::new().get_keepalives_idle();
    if config.get_keepalives_idle() == default {
        config.keepalives_idle(KEEPALIVE_IDLE);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(KEEPALIVE_INTERVAL);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(KEEPALIVE_RETRIES);
    }
}

/// Starts a server that accepts connections and never sends anything.
///
/// Returns it, and how to connect to it within a second.
#[cfg(test)]
pub(super) fn silent_server() -> (std::net::TcpListener, Server) {
    let peer = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://svc@{}/svc?connect_timeout=1", peer.local_addr().unwrap());
    (peer, parse_url(&SecretString::from(url)).unwrap())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{PgConn, session::opening_limit};
    use super::*;
    use crate::error::Code;
    use crate::time::Clock;

    fn server(url: &str) -> Server {
        parse_url(&SecretString::from(url)).unwrap()
    }

    fn parsed(url: &str) -> Config {
        server(url).config
    }

    #[test]
    fn our_defaults_apply_to_what_the_address_omits() {
        let config = parsed("postgres://svc@host/svc");
        assert_eq!(config.get_connect_timeout(), Some(&CONNECT_TIMEOUT));
        assert_eq!(config.get_tcp_user_timeout(), Some(&TCP_USER_TIMEOUT));
        assert_eq!(config.get_keepalives_idle(), KEEPALIVE_IDLE);
        assert_eq!(config.get_keepalives_interval(), Some(KEEPALIVE_INTERVAL));
        assert_eq!(config.get_keepalives_retries(), Some(KEEPALIVE_RETRIES));
        let timeout = format!("-c statement_timeout={}", STATEMENT_TIMEOUT.as_millis());
        assert!(config.get_options().unwrap().contains(&timeout));
    }

    #[test]
    fn the_address_overrides_our_defaults() {
        let config = parsed(
            "postgres://svc@host/svc?connect_timeout=3&tcp_user_timeout=4&keepalives_idle=5\
             &keepalives_interval=6&keepalives_retries=7&options=-c%20statement_timeout%3D8",
        );
        let seconds = Duration::from_secs;
        assert_eq!(config.get_connect_timeout(), Some(&seconds(3)));
        assert_eq!(config.get_tcp_user_timeout(), Some(&seconds(4)));
        assert_eq!(config.get_keepalives_idle(), seconds(5));
        assert_eq!(config.get_keepalives_interval(), Some(seconds(6)));
        assert_eq!(config.get_keepalives_retries(), Some(7));
        // The server uses the last of two.
        assert!(config.get_options().unwrap().ends_with("-c statement_timeout=8"));
    }

    #[test]
    fn only_options_that_must_hold_come_after_those_of_the_address() {
        let server = server("postgres://svc@host/svc?options=-c%20statement_timeout%3D8");
        let options = |server: Server| server.config.get_options().unwrap().to_owned();
        assert!(options(server.without_timeouts()).contains("=8 -c statement_timeout=0"));
        assert!(options(server.read_only()).ends_with("default_transaction_read_only=on"));
        assert!(options(server.planned_once()).ends_with("-c statement_timeout=8"));
    }

    #[test]
    fn connecting_to_a_silent_server_times_out() {
        let (_peer, server) = silent_server();
        let clock = Clock::system();
        let begun = clock.monotonic();
        let error = PgConn::open(&server).err().unwrap();
        assert_eq!(error.code(), Code::Unavailable);
        assert!(clock.monotonic().since(begun) < opening_limit(&server) + Duration::from_secs(2));
    }
}
