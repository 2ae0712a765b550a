//! The lifecycle phase of the server, which its modules watch.

use tokio::sync::watch;

/// Lifecycle phase of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    /// Still serving, but readiness reports the coming shutdown.
    Draining,
    /// Accepts no new connections and ends parked waits.
    Closing,
}

/// Resolves when the server enters the closing phase.
pub(crate) async fn closing(phase: &mut watch::Receiver<Phase>) {
    // The sender is dropped only after the closing phase.
    let _ = phase.wait_for(|phase| *phase == Phase::Closing).await;
}
