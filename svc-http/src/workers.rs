//! Runs the delivery workers, which take due notifications, send them, and store the results.
//!
//! Each delivery channel for which this process has a sender has a loop, which polls for due notifications
//! twice a second and after each delivery. The loop leases a batch, so that other servers do not send the
//! same notifications. If a server dies, the leases of its batches expire. Once a shutdown begins, the loop
//! leases no more batches, and it ends when the leased batches are sent.

use std::sync::Arc;
use std::time::Duration;

use svc_core::Service;
use svc_core::op::{DeliveryBatch, DeliveryChannel, DeliveryResult};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::phase::Phase;

/// Sends batches of notifications over one delivery channel.
pub(crate) trait BatchSender: Send + Sync + 'static {
    /// Type of one notification of the delivery channel.
    type Notification: Send + Sync + 'static;

    /// Delivery channel of the notifications that this sender sends.
    const CHANNEL: &'static DeliveryChannel<Self::Notification>;

    /// Sends the notifications of a batch that are still [current](TakenBatch::is_current). Returns the
    /// result of each notification, in the order of the batch.
    ///
    /// An implementation must return within [`SEND_TIMEOUT`].
    fn send(
        &self,
        leased: &LeasedBatch<Self::Notification>,
    ) -> impl Future<Output = Vec<DeliveryResult>> + Send;
}

/// A leased batch of notifications for one member.
pub(crate) struct LeasedBatch<T: 'static> {
    pub batch: Arc<DeliveryBatch<T>>,
    service: Service,
}

impl<T: Send + Sync + 'static> LeasedBatch<T> {
    /// Returns whether the notification at `index` should still be sent. Returns false if the core
    /// cannot check the notification.
    pub async fn is_current(&self, index: usize) -> bool {
        let is_current = self.service.is_current(&self.batch, index).await;
        is_current.unwrap_or_else(|error| {
            let channel = self.batch.channel().name;
            let cause = error.cause();
            tracing::warn!(channel, %error, ?cause, "a notification could not be checked and is not sent");
            false
        })
    }
}

/// Maximum time to send a batch, which is shorter than the lease of a batch.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(45);
/// Interval between polls for due notifications.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Delay before the next poll after a failure.
const POLL_INTERVAL_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Sends the due notifications of a delivery channel until the server begins to shut down.
pub(crate) async fn run_delivery_worker<S: BatchSender>(
    service: Service,
    sender: Arc<S>,
    mut phase: watch::Receiver<Phase>,
) {
    let mut sending = JoinSet::new();
    loop {
        let mut pause = POLL_INTERVAL;
        if let Err(error) = start_batches(&service, &sender, &mut sending).await {
            let channel = S::CHANNEL.name;
            tracing::warn!(channel, %error, cause = ?error.cause(), "due notifications could not be leased");
            pause = POLL_INTERVAL_AFTER_FAILURE;
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

/// Leases a batch of due notifications for each free slot, and starts to send the batches.
async fn start_batches<S: BatchSender>(
    service: &Service,
    sender: &Arc<S>,
    sending: &mut JoinSet<()>,
) -> svc_core::Result<()> {
    while sending.try_join_next().is_some() {}
    for (batch, place) in service.take_batches(S::CHANNEL).await? {
        let leased = LeasedBatch { batch: Arc::new(batch), service: service.clone() };
        let sender = Arc::clone(sender);
        sending.spawn(async move {
            send_and_record(&*sender, leased).await;
            drop(place);
        });
    }
    Ok(())
}

async fn send_and_record<S: BatchSender>(sender: &S, leased: LeasedBatch<S::Notification>) {
    let channel = S::CHANNEL.name;
    let Ok(results) = timeout(SEND_TIMEOUT, sender.send(&leased)).await else {
        return tracing::warn!(channel, "a batch was not sent in time and will be retried");
    };
    if let Err(error) = leased.service.settle(leased.batch, results).await {
        let cause = error.cause();
        tracing::warn!(channel, %error, ?cause, "the results of a batch were not stored; it may be resent");
    }
}
