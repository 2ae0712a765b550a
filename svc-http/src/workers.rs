//! Delivery workers: take due notifications of the delivery channels, send them, and settle the results.
//!
//! A loop serves each channel for which this process has a sender, several times a second, and after each
//! delivery. A batch is leased, so other servers do not take it; if a server dies, its batches are taken
//! again. The loop takes no more batches once a shutdown begins, and ends when the taken ones are sent.

use std::sync::Arc;
use std::time::Duration;

use svc_core::Service;
use svc_core::op::{DeliveryBatch, DeliveryChannel, DeliveryResult};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::phase::Phase;

/// The sender of one delivery channel.
pub(crate) trait BatchSender: Send + Sync + 'static {
    /// A notification of the channel.
    type Piece: Send + Sync + 'static;

    /// The channel.
    const WAY: &'static DeliveryChannel<Self::Piece>;

    /// Sends those notifications of a batch that are still [current](Taken::is_current), and returns the
    /// result of each, in their order.
    ///
    /// It takes less than [`SEND_TIMEOUT`].
    fn send(&self, taken: &TakenBatch<Self::Piece>) -> impl Future<Output = Vec<DeliveryResult>> + Send;
}

/// A batch that was taken.
pub(crate) struct TakenBatch<T: 'static> {
    pub batch: Arc<DeliveryBatch<T>>,
    service: Service,
}

impl<T: Send + Sync + 'static> TakenBatch<T> {
    /// Returns whether a notification is still to be sent; false if that is not known.
    pub async fn is_current(&self, place: usize) -> bool {
        let is_current = self.service.is_current(&self.batch, place).await;
        is_current.unwrap_or_else(|error| {
            let channel = self.batch.channel().name;
            let cause = error.cause();
            tracing::warn!(channel, %error, ?cause, "a piece is not sent now");
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

/// Sends due notifications of a channel until the server begins to shut down.
pub(crate) async fn work<S: BatchSender>(
    service: Service,
    sender: Arc<S>,
    mut phase: watch::Receiver<Phase>,
) {
    let mut sending = JoinSet::new();
    loop {
        let mut pause = PAUSE;
        if let Err(error) = take(&service, &sender, &mut sending).await {
            tracing::warn!(channel = S::WAY.name, %error, cause = ?error.cause(), "nothing could be taken");
            pause = PAUSE_AFTER_FAILURE;
        }
        tokio::select! {
            () = sleep(pause) => {}
            Some(_) = sending.join_next() => {}
            // The sender is dropped only after the closing phase.
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => break,
        }
    }
    while sending.join_next().await.is_some() {}
}

/// Takes as many batches as there is room for, and begins to send them.
async fn take<S: BatchSender>(
    service: &Service,
    sender: &Arc<S>,
    sending: &mut JoinSet<()>,
) -> svc_core::Result<()> {
    while sending.try_join_next().is_some() {}
    for (batch, place) in service.take_batches(S::WAY).await? {
        let taken = TakenBatch { batch: Arc::new(batch), service: service.clone() };
        let sender = Arc::clone(sender);
        sending.spawn(async move {
            send(&*sender, taken).await;
            drop(place);
        });
    }
    Ok(())
}

async fn send<S: BatchSender>(sender: &S, taken: TakenBatch<S::Piece>) {
    let channel = S::WAY.name;
    let Ok(results) = timeout(SEND_TIMEOUT, sender.send(&taken)).await else {
        return tracing::warn!(channel, "a batch was not sent in time and is taken again later");
    };
    if let Err(error) = taken.service.settle(taken.batch, results).await {
        let cause = error.cause();
        tracing::warn!(channel, %error, ?cause, "the results of a batch were not stored; it may be resent");
    }
}
