//! The phase of the server's life, which its modules follow.

use tokio::sync::watch;

/// The phase of the server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    /// Still serving, but readiness reports the coming shutdown.
    Draining,
    /// Accepts nothing new; parked waits end.
    Closing,
}

/// Resolves when the server closes.
pub(crate) async fn closing(phase: &mut watch::Receiver<Phase>) {
    // The sender is dropped only after the closing phase.
    let _ = phase.wait_for(|phase| *phase == Phase::Closing).await;
}
