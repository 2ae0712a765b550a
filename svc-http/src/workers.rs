//! Delivery workers: take due notifications of the delivery channels, send them, and settle the results.
//!
//! One loop serves all channels for which this process has a sender, several times a second, and after each
//! delivery. A batch is leased, so other servers do not take it; if a server dies, its batches are taken
//! again. The loop takes no more batches once a shutdown begins, and ends when the taken ones are sent.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use svc_core::Service;
use svc_core::op::{Arrival, Parcel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::phase::Phase;

/// The sender of one delivery channel.
pub(crate) trait Sender: Send + Sync {
    /// Returns the name of the channel.
    fn way(&self) -> &'static str;

    /// Sends those notifications of a batch that are still [current](Taken::is_current), and returns the
    /// result of each, in their order.
    ///
    /// It takes less than [`SEND_TIMEOUT`].
    fn send<'a>(&'a self, taken: &'a Taken) -> BoxFuture<'a, Vec<Arrival>>;
}

/// A batch that was taken.
pub(crate) struct Taken {
    pub parcel: Arc<Parcel>,
    service: Service,
}

impl Taken {
    /// Returns whether a notification is still to be sent; false if that is not known.
    pub async fn is_current(&self, place: usize) -> bool {
        let is_current = self.service.is_current(&self.parcel, place).await;
        is_current.unwrap_or_else(|error| {
            let (way, cause) = (self.parcel.way(), error.cause());
            tracing::warn!(way, %error, ?cause, "a piece is not sent now");
            false
        })
    }
}

/// Maximum time for a batch, which is shorter than its lease.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(45);
/// Time between two polls for due notifications.
const PAUSE: Duration = Duration::from_millis(500);
/// Time until the next poll after a failure.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// A channel, and its batches that are being sent.
struct Line {
    sender: Arc<dyn Sender>,
    sending: JoinSet<()>,
}

/// Sends due notifications until the server begins to shut down.
pub(crate) async fn work(service: Service, senders: Vec<Arc<dyn Sender>>, mut phase: watch::Receiver<Phase>) {
    if senders.is_empty() {
        return;
    }
    let mut lines: Vec<Line> =
        senders.into_iter().map(|sender| Line { sender, sending: JoinSet::new() }).collect();
    loop {
        let mut pause = PAUSE;
        for line in &mut lines {
            if let Err(error) = line.take(&service).await {
                let (way, cause) = (line.sender.way(), error.cause());
                tracing::warn!(way, %error, ?cause, "nothing could be taken");
                pause = PAUSE_AFTER_FAILURE;
            }
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = sent_any(&mut lines) => {}
            // The sender is dropped only after the closing phase.
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => break,
        }
    }
    for mut line in lines {
        while line.sending.join_next().await.is_some() {}
    }
}

/// Resolves when a batch was sent on any channel.
async fn sent_any(lines: &mut [Line]) {
    let sent = lines.iter_mut().filter(|line| !line.sending.is_empty()).map(|line| {
        Box::pin(async {
            line.sending.join_next().await;
        })
    });
    let sent: Vec<_> = sent.collect();
    if sent.is_empty() {
        return std::future::pending().await;
    }
    futures_util::future::select_all(sent).await;
}

impl Line {
    /// Takes as many batches as there is room for, and begins to send them.
    async fn take(&mut self, service: &Service) -> svc_core::Result<()> {
        while self.sending.try_join_next().is_some() {}
        for (parcel, place) in service.take_parcels(self.sender.way()).await? {
            let taken = Taken { parcel: Arc::new(parcel), service: service.clone() };
            let sending = send(Arc::clone(&self.sender), taken);
            self.sending.spawn(async move {
                sending.await;
                drop(place);
            });
        }
        Ok(())
    }
}

async fn send(sender: Arc<dyn Sender>, taken: Taken) {
    let way = sender.way();
    let Ok(arrivals) = timeout(SEND_TIMEOUT, sender.send(&taken)).await else {
        return tracing::warn!(way, "a parcel was not sent in time and is taken again later");
    };
    if let Err(error) = taken.service.settle(taken.parcel, arrivals).await {
        let cause = error.cause();
        tracing::warn!(way, %error, ?cause, "what became of a parcel was not noted: it may be sent again");
    }
}
