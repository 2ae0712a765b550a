//! What every session is opened with, from a `postgres://` address.

use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::Config;

use crate::error::{Error, Result};
use crate::limits::{
    CONNECT_TIMEOUT, IDLE_IN_TRANSACTION_TIMEOUT, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_RETRIES,
    LOCK_TIMEOUT, STATEMENT_TIMEOUT, TCP_USER_TIMEOUT,
};

/// Reads the settings of a server from a `postgres://` address.
pub(crate) fn parse_url(url: &SecretString) -> Result<Config> {
    let mut config: Config = url.expose_secret().parse().map_err(|error: tokio_postgres::Error| {
        Error::malformed(
            "DATABASE_URL is not an address of the form postgres://user:password@host:port/database",
        )
        .caused_by(error)
    })?;
    // A plan that was made and kept while a table was empty would scan it for ever: every statement of the
    // service has an index to go by, and must not be talked out of it by statistics.
    let options = format!(
        "-c synchronous_commit=on -c statement_timeout={} -c lock_timeout={} \
         -c idle_in_transaction_session_timeout={} -c jit=off -c enable_seqscan=off",
        STATEMENT_TIMEOUT.as_millis(),
        LOCK_TIMEOUT.as_millis(),
        IDLE_IN_TRANSACTION_TIMEOUT.as_millis(),
    );
    let options = match config.get_options() {
        Some(given) => format!("{options} {given}"),
        None => options,
    };
    config.options(options).application_name("svc");
    notice_silence(&mut config);
    Ok(config)
}

/// Lets the kernel find out that a server is gone, unless the address says otherwise. Without it a host that lost
/// its power is waited for as long as TCP retransmits, a quarter of an hour.
fn notice_silence(config: &mut Config) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(TCP_USER_TIMEOUT);
    }
    let untouched = Config::new().get_keepalives_idle();
    if config.get_keepalives_idle() == untouched {
        config.keepalives_idle(KEEPALIVE_IDLE);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(KEEPALIVE_INTERVAL);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(KEEPALIVE_RETRIES);
    }
}

/// The same server, with sessions whose statements may take as long as they take.
pub(crate) fn unhurried(config: &Config) -> Config {
    let mut config = config.clone();
    let options = format!(
        "{} -c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0",
        config.get_options().unwrap_or_default()
    );
    config.options(options);
    config
}

/// The same server, with sessions that can change nothing.
pub(crate) fn read_only(config: &Config) -> Config {
    let mut config = config.clone();
    let options = format!("{} -c default_transaction_read_only=on", config.get_options().unwrap_or_default());
    config.options(options);
    config
}

/// A server that accepts connections and never says a word, and how to connect to it within a second.
#[cfg(test)]
pub(super) fn silent_server() -> (std::net::TcpListener, Config) {
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

    fn parsed(url: &str) -> Config {
        parse_url(&SecretString::from(url)).unwrap()
    }

    #[test]
    fn what_the_address_does_not_say_is_ours() {
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
    fn what_the_address_says_wins() {
        let config = parsed(
            "postgres://svc@host/svc?connect_timeout=3&tcp_user_timeout=4&keepalives_idle=5&keepalives_interval=6\
             &keepalives_retries=7&options=-c%20statement_timeout%3D8",
        );
        let seconds = Duration::from_secs;
        assert_eq!(config.get_connect_timeout(), Some(&seconds(3)));
        assert_eq!(config.get_tcp_user_timeout(), Some(&seconds(4)));
        assert_eq!(config.get_keepalives_idle(), seconds(5));
        assert_eq!(config.get_keepalives_interval(), Some(seconds(6)));
        assert_eq!(config.get_keepalives_retries(), Some(7));
        // The server takes the last of two.
        assert!(config.get_options().unwrap().ends_with("-c statement_timeout=8"));
    }

    #[test]
    fn sessions_without_haste_or_rights_say_so_last() {
        let config = parsed("postgres://svc@host/svc?options=-c%20statement_timeout%3D8");
        assert!(unhurried(&config).get_options().unwrap().contains("=8 -c statement_timeout=0"));
        assert!(read_only(&config).get_options().unwrap().ends_with("default_transaction_read_only=on"));
    }

    #[test]
    fn a_server_that_says_nothing_is_given_up() {
        let (_peer, config) = silent_server();
        let begun = Clock::System.monotonic();
        let error = PgConn::open(&config).err().unwrap();
        assert_eq!(error.code(), Code::Unavailable);
        assert!(Clock::System.monotonic().since(begun) < opening_limit(&config) + Duration::from_secs(2));
    }
}
