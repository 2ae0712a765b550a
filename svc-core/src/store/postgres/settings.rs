//! The settings with which sessions are opened, from `DATABASE_URL`.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, RecyclingMethod};
use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::config::{ChannelBinding, LoadBalanceHosts, SslMode, SslNegotiation, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::tls;
use crate::config::{DatabaseUrl, PgHost, TlsUse};
use crate::error::Result;
use crate::limits::{
    CONNECT_TIMEOUT, IDLE_IN_TRANSACTION_TIMEOUT, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_RETRIES,
    LOCK_TIMEOUT, POSTGRES_REPLY_GRACE, RATE_LIMIT_SHARING_TIMEOUT, STATEMENT_TIMEOUT, TCP_USER_TIMEOUT,
};

/// A server, and the settings with which sessions are opened.
#[derive(Clone)]
pub(crate) struct Server {
    config: Config,
    tls: MakeRustlsConnect,
    /// Whether the sessions with the server are read-only.
    is_read_only: bool,
}

type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// Parses the settings of a server from a URL.
pub(crate) fn parse_url(text: &SecretString) -> Result<Server> {
    let url = DatabaseUrl::parse(text.expose_secret())?;
    let tls = tls::tls_connector(&url.proof)?;
    let mut config = Config::new();
    url.hosts().iter().for_each(|host| add_host(&mut config, host));
    // A Unix socket needs no TLS, and does not support it.
    let is_local = url.hosts().iter().all(PgHost::is_socket);
    config.ssl_mode(match url.proof.tls_use() {
        _ if is_local => SslMode::Disable,
        TlsUse::Never => SslMode::Disable,
        TlsUse::IfOffered => SslMode::Prefer,
        TlsUse::Always => SslMode::Require,
    });
    if url.proof.direct {
        config.ssl_negotiation(SslNegotiation::Direct);
    }
    url.get("user").map(|user| config.user(user));
    url.get("password").map(|password| config.password(password));
    url.get("dbname").map(|database| config.dbname(database));
    let name = url.get("application_name").or(url.get("fallback_application_name")).unwrap_or("svc");
    config.application_name(name);
    config.channel_binding(match url.get("channel_binding") {
        Some("disable") => ChannelBinding::Disable,
        Some("require") => ChannelBinding::Require,
        _ => ChannelBinding::Prefer,
    });
    if url.get("load_balance_hosts") == Some("random") {
        config.load_balance_hosts(LoadBalanceHosts::Random);
    }
    if matches!(url.get("target_session_attrs"), Some("read-write" | "primary")) {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    // A plan that was made and cached while a table was empty would scan the table forever. Every statement
    // of the service has an index to use, and statistics must not keep the planner from using it. Nor may the
    // planner read a whole range of an index as a bitmap, where the statement takes the first rows of its
    // order.
    let options = format!(
        "-c synchronous_commit=on -c statement_timeout={} -c lock_timeout={} \
         -c idle_in_transaction_session_timeout={} -c jit=off -c enable_seqscan=off -c enable_bitmapscan=off",
        STATEMENT_TIMEOUT.as_millis(),
        LOCK_TIMEOUT.as_millis(),
        IDLE_IN_TRANSACTION_TIMEOUT.as_millis(),
    );
    config.options(match url.get("options") {
        Some(given) => format!("{options} {given}"),
        None => options,
    });
    set_dead_peer_timeouts(&mut config, &url);
    Ok(Server { config, tls, is_read_only: false })
}

fn add_host(config: &mut Config, host: &PgHost) {
    match host.socket_folder() {
        Some(folder) => config.host_path(folder),
        None => config.host(&host.name),
    };
    if let Some(address) = host.address {
        config.hostaddr(address);
    }
    config.port(host.port);
}

impl Server {
    /// Opens a connection outside of any pool, with TLS if the URL requires it.
    pub(super) async fn connect(
        &self,
    ) -> std::result::Result<(Client, Connection<Socket, Stream>), tokio_postgres::Error> {
        self.config.connect(self.tls.clone()).await
    }

    /// Returns the manager that opens a pool's connections, and checks them without a round trip.
    pub(super) fn connection_manager(&self) -> Manager {
        let check = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        Manager::from_config(self.config.clone(), self.tls.clone(), check)
    }

    /// Returns the time limit for opening a session.
    ///
    /// The driver's own limit covers only the TCP connection, not the messages that the server sends after
    /// that.
    pub(super) fn open_timeout(&self) -> Duration {
        self.config
            .get_connect_timeout()
            .copied()
            .unwrap_or(CONNECT_TIMEOUT)
            .saturating_add(POSTGRES_REPLY_GRACE)
    }

    /// Returns the same server with sessions that have no time limits for statements.
    pub fn without_timeouts(&self) -> Self {
        self.with_options(
            "",
            "-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0",
        )
    }

    /// Returns the same server with sessions that plan each statement once.
    ///
    /// A commit runs the same few statements again and again, and planning most of them takes longer than
    /// running them.
    pub fn with_generic_plans(&self) -> Self {
        self.with_options("-c plan_cache_mode=force_generic_plan", "")
    }

    /// Returns the same server with short timeouts, for statements whose callers can continue without a
    /// result.
    pub fn with_short_statement_timeouts(&self) -> Self {
        let millis = RATE_LIMIT_SHARING_TIMEOUT.as_millis();
        let options = format!("-c statement_timeout={millis} -c lock_timeout={millis}");
        self.with_options("-c plan_cache_mode=force_generic_plan", &options)
    }

    /// Returns the same server with sessions that are read-only.
    pub fn with_read_only_sessions(&self) -> Self {
        Self { is_read_only: true, ..self.clone() }
    }

    /// Returns the statement that makes a new session read-only, or `None` for sessions that may write.
    ///
    /// If an option did this instead, `target_session_attrs` would mistake a primary for a standby.
    pub(super) fn session_setup_statement(&self) -> Option<&'static str> {
        self.is_read_only.then_some("set default_transaction_read_only = on")
    }

    /// Adds options before and after the existing ones. If an option occurs twice, the server uses the last
    /// one.
    fn with_options(&self, before: &str, after: &str) -> Self {
        let mut server = self.clone();
        let options = [before, self.config.get_options().unwrap_or_default(), after].join(" ");
        server.config.options(options.trim());
        server
    }
}

/// Sets the timeouts and keepalives with which the kernel detects that a server is gone.
///
/// Options in the URL override the defaults; 0 counts as not set. Without keepalives, a connection to a host
/// that lost power waits as long as TCP retransmits, a quarter of an hour.
fn set_dead_peer_timeouts(config: &mut Config, url: &DatabaseUrl) {
    let number = |name| url.number(name).filter(|number| *number > 0);
    let seconds = |name, default| number(name).map_or(default, Duration::from_secs);
    config.connect_timeout(seconds("connect_timeout", CONNECT_TIMEOUT));
    config.tcp_user_timeout(number("tcp_user_timeout").map_or(TCP_USER_TIMEOUT, Duration::from_millis));
    config.keepalives(url.get("keepalives") != Some("0"));
    config.keepalives_idle(seconds("keepalives_idle", KEEPALIVE_IDLE));
    config.keepalives_interval(seconds("keepalives_interval", KEEPALIVE_INTERVAL));
    let count = number("keepalives_count").and_then(|count| u32::try_from(count).ok());
    config.keepalives_retries(count.unwrap_or(KEEPALIVE_RETRIES));
}

/// Starts a server that accepts connections and never sends anything.
///
/// Returns the listener, and settings for connecting to it within a second.
#[cfg(test)]
pub(super) fn silent_server() -> (std::net::TcpListener, Server) {
    let peer = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://svc@{}/svc?connect_timeout=1", peer.local_addr().unwrap());
    (peer, parse_url(&SecretString::from(url)).unwrap())
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::Host;

    use super::super::{PgConn, server_for_tests};
    use super::*;
    use crate::error::{Code, Error};
    use crate::store::Database;
    use crate::store::refusal::refusal;
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
            "postgres://svc@host/svc?connect_timeout=3&tcp_user_timeout=4000&keepalives_idle=5\
             &keepalives_interval=6&keepalives_count=7&options=-c%20statement_timeout%3D8\
             &application_name=mine&fallback_application_name=other",
        );
        let seconds = Duration::from_secs;
        assert_eq!(config.get_connect_timeout(), Some(&seconds(3)));
        assert_eq!(config.get_tcp_user_timeout(), Some(&seconds(4)));
        assert_eq!(config.get_keepalives_idle(), seconds(5));
        assert_eq!(config.get_keepalives_interval(), Some(seconds(6)));
        assert_eq!(config.get_keepalives_retries(), Some(7));
        assert_eq!(config.get_application_name(), Some("mine"));
        // If an option occurs twice, the server uses the last one.
        assert!(config.get_options().unwrap().ends_with("-c statement_timeout=8"));
    }

    #[test]
    fn each_parameter_of_libpq_reaches_the_driver() {
        let of = |query: &str| parsed(&format!("postgres://u:p%40@a:1,b/d?{query}"));
        let plain = of("");
        assert_eq!((plain.get_user(), plain.get_password()), (Some("u"), Some(&b"p@"[..])));
        assert_eq!((plain.get_dbname(), plain.get_ports()), (Some("d"), &[1, 5432][..]));
        assert_eq!(plain.get_hosts(), [Host::Tcp("a".to_owned()), Host::Tcp("b".to_owned())]);
        assert_eq!(plain.get_ssl_mode(), SslMode::Prefer);
        assert_eq!(of("hostaddr=10.0.0.1,::1").get_hostaddrs().len(), 2);
        assert_eq!(of("ssl=true").get_ssl_mode(), SslMode::Require);
        assert_eq!(of("sslmode=disable").get_ssl_mode(), SslMode::Disable);
        assert_eq!(of("channel_binding=require").get_channel_binding(), ChannelBinding::Require);
        assert_eq!(of("load_balance_hosts=random").get_load_balance_hosts(), LoadBalanceHosts::Random);
        for word in ["primary", "read-write"] {
            let config = of(&format!("target_session_attrs={word}"));
            assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        }
        let direct = of("sslmode=require&sslnegotiation=direct");
        assert_eq!(direct.get_ssl_negotiation(), SslNegotiation::Direct);
        assert!(!of("keepalives=0").get_keepalives());
        assert_eq!(of("connect_timeout=0").get_connect_timeout(), Some(&CONNECT_TIMEOUT));
        assert_eq!(of("fallback_application_name=x").get_application_name(), Some("x"));
        let socket = parsed("host=/run/pg user=u sslmode=require");
        assert_eq!(
            (socket.get_ssl_mode(), socket.get_hosts()),
            (SslMode::Disable, &[Host::Unix("/run/pg".into())][..])
        );
        assert!(matches!(parsed("dbname=d").get_hosts(), [Host::Unix(_)]));
    }

    #[test]
    fn only_options_that_must_hold_come_after_those_of_the_address() {
        let server = server("postgres://svc@host/svc?options=-c%20statement_timeout%3D8");
        let options = |server: Server| server.config.get_options().unwrap().to_owned();
        assert!(options(server.without_timeouts()).contains("=8 -c statement_timeout=0"));
        assert!(options(server.with_generic_plans()).ends_with("-c statement_timeout=8"));
    }

    #[test]
    fn a_session_that_can_change_nothing_reaches_the_primary() {
        let Some(url) = server_for_tests() else { return };
        let separator = if url.contains('?') { '&' } else { '?' };
        let server = server(&format!("{url}{separator}target_session_attrs=read-write"));
        let conn = PgConn::open(&server.with_read_only_sessions()).unwrap();
        conn.batch("select 1").unwrap();
        let refused = conn.batch("create table of_a_session_that_can_change_nothing (a int)").unwrap_err();
        assert!(format!("{refused:?}").contains("read-only"), "{refused:?}");
    }

    #[test]
    fn a_start_on_a_server_that_accepts_no_writes_does_not_call_it_down() {
        let Some(url) = server_for_tests() else { return };
        let separator = if url.contains('?') { '&' } else { '?' };
        let only_read = format!("{url}{separator}options=-c%20default_transaction_read_only%3Don");
        let check = |error: Error, url: &str| {
            let found = refusal(error, &Database::Postgres(url.into()));
            assert_eq!(found.code(), Code::Unavailable);
            let detail = found.detail();
            assert!(detail.contains("accepts writes") && !detail.contains("running"), "{found}");
        };
        for attribute in ["read-write", "primary"] {
            let url = format!("{only_read}&target_session_attrs={attribute}");
            check(PgConn::open(&server(&url)).err().unwrap(), &url);
        }
        let conn = PgConn::open(&server(&only_read)).unwrap();
        conn.batch("select 1").unwrap();
        check(conn.batch("create table of_a_start_on_a_read_only_server (a int)").unwrap_err(), &only_read);
    }

    #[test]
    fn connecting_to_a_silent_server_times_out() {
        let (_peer, server) = silent_server();
        let clock = Clock::system();
        let begun = clock.monotonic();
        let error = PgConn::open(&server).err().unwrap();
        assert_eq!(error.code(), Code::Unavailable);
        assert!(clock.monotonic().since(begun) < server.open_timeout() + Duration::from_secs(2));
    }
}
