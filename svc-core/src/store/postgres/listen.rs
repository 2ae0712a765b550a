//! Hearing from other servers how far logs reach: LISTEN on a connection of its own, made anew after it broke.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::runtime::Builder;
use tokio_postgres::{AsyncMessage, Config, NoTls};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::limits::BUS_RECONCILE;
use crate::log::bus::Bus;

/// How soon the listener notices that the service closes.
const CLOSING_POLL: Duration = Duration::from_millis(100);

/// Starts a thread that hears how far other servers' commits reach, and comes back after a lost connection.
pub(crate) fn listen(config: &Config, bus: Arc<Bus>) -> Result<JoinHandle<()>> {
    let config = config.clone();
    let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    let body = move || {
        runtime.block_on(async {
            while !bus.is_closing() {
                tokio::select! {
                    heard = hear(&config, &bus) => {
                        bus.set_deaf(true);
                        if let Err(error) = heard {
                            tracing::warn!(%error, "notifications are interrupted; polling goes on");
                        }
                        tokio::time::sleep(BUS_RECONCILE).await;
                    }
                    () = closed(&bus) => return,
                }
            }
        });
    };
    std::thread::Builder::new().name("svc-listener".to_owned()).spawn(body).map_err(Error::internal)
}

async fn closed(bus: &Bus) {
    while !bus.is_closing() {
        tokio::time::sleep(CLOSING_POLL).await;
    }
}

async fn hear(config: &Config, bus: &Bus) -> std::result::Result<(), tokio_postgres::Error> {
    let (client, mut connection) = config.connect(NoTls).await?;
    let messages = futures_util::stream::poll_fn(move |cx| connection.poll_message(cx));
    let reading = messages.for_each(|message| async {
        if let Ok(AsyncMessage::Notification(notice)) = message {
            for (workspace, lsn) in
                notice.payload().split_whitespace().filter_map(|word| word.split_once(':'))
            {
                if let (Ok(workspace), Ok(lsn)) = (workspace.parse::<Uuid>(), lsn.parse()) {
                    bus.reached(workspace.into(), lsn);
                }
            }
        }
    });
    let listening = async {
        client.batch_execute("listen svc_log").await?;
        bus.set_deaf(false);
        // The client must outlive the reading: when it goes, the connection closes.
        std::future::pending().await
    };
    tokio::select! {
        () = reading => Ok(()),
        failed = listening => failed,
    }
}
