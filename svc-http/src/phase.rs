//! Defines the lifecycle phases of the server.

use tokio::sync::watch;

/// Lifecycle phase of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Serves requests.
    Serving,
    /// Still serves requests, but the readiness check reports the coming shutdown.
    Draining,
    /// Accepts no new connections and ends parked waits.
    Closing,
}

/// Resolves when the server enters the closing phase.
pub(crate) async fn wait_for_closing(phase: &mut watch::Receiver<Phase>) {
    // The sender is dropped only after the closing phase has begun.
    let _ = phase.wait_for(|phase| *phase == Phase::Closing).await;
}
