//! Receives notifications of other servers' commits, on a separate connection that is reopened when it
//! breaks.

use std::convert::Infallible;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_postgres::AsyncMessage;
use uuid::Uuid;

use super::errors::unreachable_error;
use super::settings::Server;
use crate::error::{Error, Result};
use crate::limits::BUS_RETRY_PAUSE;
use crate::log::bus::Bus;

/// Interval at which the listener checks whether the service shuts down.
const CLOSING_POLL: Duration = Duration::from_millis(100);

/// Starts a thread that receives the log positions of other servers' commits.
///
/// The thread reconnects after a lost connection. While it does not listen, the bus is marked as interrupted.
/// Returns when the first connection attempt has finished.
pub(crate) fn start_listener(server: &Server, bus: Arc<Bus>) -> Result<JoinHandle<()>> {
    bus.set_notifications_interrupted(true);
    let server = server.clone();
    let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    let (first_attempt, first_attempt_end) = mpsc::channel();
    let mut first_attempt: FirstAttemptGuard = Some(first_attempt);
    let body = move || {
        runtime.block_on(async {
            while !bus.is_closing() {
                tokio::select! {
                    received = receive_notifications(&server, &bus, &mut first_attempt) => {
                        bus.set_notifications_interrupted(true);
                        first_attempt.take();
                        if let Err(error) = received {
                            let cause = error.cause();
                            tracing::warn!(
                                %error, ?cause, "notifications are interrupted; polling continues"
                            );
                        }
                        tokio::time::sleep(BUS_RETRY_PAUSE).await;
                    }
                    () = wait_until_closing(&bus) => return,
                }
            }
        });
    };
    let thread = std::thread::Builder::new().name("svc-listener".to_owned()).spawn(body);
    // Nothing is ever sent: `recv` returns when the sender is dropped.
    let _ = first_attempt_end.recv();
    thread.map_err(Error::internal)
}

/// A sender that is dropped when the first connection attempt has finished.
type FirstAttemptGuard = Option<mpsc::Sender<Infallible>>;

async fn wait_until_closing(bus: &Bus) {
    while !bus.is_closing() {
        tokio::time::sleep(CLOSING_POLL).await;
    }
}

/// Receives notifications until the connection ends.
///
/// Each reply has the same time limit as opening a session.
async fn receive_notifications(
    server: &Server,
    bus: &Bus,
    first_attempt: &mut FirstAttemptGuard,
) -> Result<()> {
    let limit = server.open_timeout();
    let connecting = timeout(limit, server.connect()).await.map_err(unreachable_error)?;
    let (client, mut connection) = connecting.map_err(unreachable_error)?;
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
        let replied = timeout(limit, client.batch_execute("listen svc_log")).await;
        replied.map_err(unreachable_error)?.map_err(unreachable_error)?;
        bus.set_notifications_interrupted(false);
        first_attempt.take();
        // The client must outlive the reads, because dropping it closes the connection.
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
    fn a_silent_server_leaves_the_bus_interrupted() {
        let (_peer, server) = silent_server();
        let bus = Arc::new(Bus::new(&Clock::system(), BUS_RETRY_PAUSE));
        let thread = start_listener(&server, Arc::clone(&bus)).unwrap();
        assert!(bus.has_interrupted_notifications());
        bus.close();
        thread.join().unwrap();
    }
}
