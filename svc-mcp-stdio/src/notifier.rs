//! Notifications to a client while its request runs: progress, log messages, and changes of subscribed
//! resources.

use bytes::Bytes;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::log_level::LogLevel;

/// Maximum notifications that wait to be sent.
const QUEUE_MAX: usize = 16;

/// The sender of a request's notifications.
///
/// If the transport cannot send any, they are dropped.
#[derive(Clone, Debug, Default)]
pub struct Notifier(Option<mpsc::Sender<Bytes>>);

impl Notifier {
    /// Creates a sender, and the receiver for the transport.
    pub fn new() -> (Self, mpsc::Receiver<Bytes>) {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        (Self(Some(sender)), receiver)
    }

    /// Returns the sender of a transport that sends only responses.
    pub fn closed() -> Self {
        Self(None)
    }

    /// Sends a notification, and waits while the client does not read. Returns whether it may still arrive.
    pub async fn send(&self, method: &str, params: &impl Serialize) -> bool {
        match &self.0 {
            Some(sender) => sender.send(notification(method, params)).await.is_ok(),
            None => false,
        }
    }

    /// Sends a notification, unless the client has not read the last ones.
    fn offer(&self, method: &str, params: &impl Serialize) {
        if let Some(sender) = &self.0 {
            // Optional notifications are dropped.
            let _ = sender.try_send(notification(method, params));
        }
    }

    /// Reports the progress of a request.
    pub fn progress(&self, token: &ProgressToken, done: u32, total: u32, message: &str) {
        let params = ProgressNotificationParam::new(token.clone(), f64::from(done))
            .with_total(f64::from(total))
            .with_message(message);
        self.offer("notifications/progress", &params);
    }

    /// Sends a log message.
    pub fn log(&self, level: LogLevel, data: &Value) {
        self.offer("notifications/message", &json!({"level": level, "logger": "svc", "data": data}));
    }
}

/// Returns the answer to a request, and forwards notifications to its client until then.
///
/// Notifications sent before the answer arrive before it.
pub async fn relaying<T>(
    answer: impl Future<Output = T>,
    mut said: mpsc::Receiver<Bytes>,
    to: &mpsc::Sender<Bytes>,
) -> T {
    let mut answer = std::pin::pin!(answer);
    let answer = loop {
        tokio::select! {
            biased;
            // If the reader is gone, the sender of the answer finds out.
            Some(notification) = said.recv() => drop(to.send(notification).await),
            answer = &mut answer => break answer,
        }
    };
    while let Ok(notification) = said.try_recv() {
        let _ = to.send(notification).await;
    }
    answer
}

/// Returns a notification.
pub(crate) fn notification(method: &str, params: &impl Serialize) -> Bytes {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string().into()
}
