//! Hearing from other servers how far logs reach: LISTEN on a connection of its own, made anew after it broke.

use std::convert::Infallible;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Config, NoTls};
use uuid::Uuid;

use super::errors::unreachable;
use super::session::opening_limit;
use crate::error::{Error, Result};
use crate::limits::BUS_RECONCILE;
use crate::log::bus::Bus;

/// How soon the listener notices that the service closes.
const CLOSING_POLL: Duration = Duration::from_millis(100);

/// Starts a thread that hears how far other servers' commits reach, and comes back after a lost connection. Until it
/// hears, the bus is deaf. Returns when the first try to hear has come to its end.
pub(crate) fn listen(config: &Config, bus: Arc<Bus>) -> Result<JoinHandle<()>> {
    bus.set_interrupted(true);
    let config = config.clone();
    let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    let (tried, first_try) = mpsc::channel();
    let mut tried: Tried = Some(tried);
    let body = move || {
        runtime.block_on(async {
            while !bus.is_closing() {
                tokio::select! {
                    heard = hear(&config, &bus, &mut tried) => {
                        bus.set_interrupted(true);
                        tried.take();
                        if let Err(error) = heard {
                            tracing::warn!(%error, cause = ?error.cause(), "notifications are interrupted; polling goes on");
                        }
                        tokio::time::sleep(BUS_RECONCILE).await;
                    }
                    () = closed(&bus) => return,
                }
            }
        });
    };
    let thread = std::thread::Builder::new().name("svc-listener".to_owned()).spawn(body);
    // Nothing is ever sent: it ends when the sender is dropped.
    let _ = first_try.recv();
    thread.map_err(Error::internal)
}

/// Dropped when the first try has come to its end.
type Tried = Option<mpsc::Sender<Infallible>>;

async fn closed(bus: &Bus) {
    while !bus.is_closing() {
        tokio::time::sleep(CLOSING_POLL).await;
    }
}

/// Hears until the connection ends. Each answer is waited for as long as any other session may take
/// to open.
async fn hear(config: &Config, bus: &Bus, tried: &mut Tried) -> Result<()> {
    let limit = opening_limit(config);
    let connecting = timeout(limit, config.connect(NoTls)).await.map_err(unreachable)?;
    let (client, mut connection) = connecting.map_err(unreachable)?;
    let messages = futures_util::stream::poll_fn(move |cx| connection.poll_message(cx));
    let reading = messages.for_each(|message| async {
        if let Ok(AsyncMessage::Notification(notice)) = message {
            for (workspace, lsn) in
                notice.payload().split_whitespace().filter_map(|word| word.split_once(':'))
            {
                if let (Ok(workspace), Ok(lsn)) = (workspace.parse::<Uuid>(), lsn.parse()) {
                    bus.announce(workspace.into(), lsn);
                }
            }
        }
    });
    let listening = async {
        let answered = timeout(limit, client.batch_execute("listen svc_log")).await;
        answered.map_err(unreachable)?.map_err(unreachable)?;
        bus.set_interrupted(false);
        tried.take();
        // The client must outlive the reading: when it goes, the connection closes.
        std::future::pending().await
    };
    tokio::select! {
        () = reading => Ok(()),
        failed = listening => failed,
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::silent_server;
    use super::*;
    use crate::time::Clock;

    #[test]
    fn a_server_that_says_nothing_leaves_the_bus_deaf() {
        let (_peer, config) = silent_server();
        let bus = Arc::new(Bus::new(&Clock::System));
        let thread = listen(&config, Arc::clone(&bus)).unwrap();
        assert!(bus.is_interrupted());
        bus.close();
        thread.join().unwrap();
    }
}
