//! Sends notifications to a client while a request runs: progress, log messages, and changes of subscribed
//! resources.

use bytes::Bytes;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::log_level::LogLevel;

/// Maximum notifications that are queued to be sent.
const QUEUED_NOTIFICATIONS_MAX: usize = 16;

/// Sender of the notifications of a request.
///
/// If the transport cannot send notifications, the sender drops them.
#[derive(Clone, Debug, Default)]
pub struct Notifier(Option<mpsc::Sender<Bytes>>);

impl Notifier {
    /// Creates a sender, and the receiver from which the transport reads the notifications.
    pub fn new() -> (Self, mpsc::Receiver<Bytes>) {
        let (sender, receiver) = mpsc::channel(QUEUED_NOTIFICATIONS_MAX);
        (Self(Some(sender)), receiver)
    }

    /// Returns a sender that drops all notifications, for a transport that cannot send them.
    pub fn closed() -> Self {
        Self(None)
    }

    /// Sends a notification, after waiting for room in the queue. Returns false if the notification cannot
    /// reach the client.
    pub async fn send(&self, method: &str, params: &impl Serialize) -> bool {
        match &self.0 {
            Some(sender) => sender.send(encode_notification(method, params)).await.is_ok(),
            None => false,
        }
    }

    /// Sends a notification, or drops the notification if the queue is full.
    fn try_send(&self, method: &str, params: &impl Serialize) {
        if let Some(sender) = &self.0 {
            // Notifications that the client does not need are dropped if the queue is full.
            let _ = sender.try_send(encode_notification(method, params));
        }
    }

    /// Reports the progress of a request.
    pub fn progress(&self, token: &ProgressToken, done: u32, total: u32, message: &str) {
        let params = ProgressNotificationParam::new(token.clone(), f64::from(done))
            .with_total(f64::from(total))
            .with_message(message);
        self.try_send("notifications/progress", &params);
    }

    /// Sends a log message.
    pub fn log(&self, level: LogLevel, data: &Value) {
        self.try_send("notifications/message", &json!({"level": level, "logger": "svc", "data": data}));
    }
}

/// Runs `answer` to its end, and until then forwards the notifications of the request to the client.
///
/// Notifications that were sent before the answer also arrive before the answer.
pub async fn relay_notifications<T>(
    answer: impl Future<Output = T>,
    mut notifications: mpsc::Receiver<Bytes>,
    client: &mpsc::Sender<Bytes>,
) -> T {
    let mut answer = std::pin::pin!(answer);
    let answer = loop {
        tokio::select! {
            biased;
            // If the client has disconnected, sending the answer will report that.
            Some(notification) = notifications.recv() => drop(client.send(notification).await),
            answer = &mut answer => break answer,
        }
    };
    while let Ok(notification) = notifications.try_recv() {
        let _ = client.send(notification).await;
    }
    answer
}

/// Encodes a JSON-RPC notification.
pub(crate) fn encode_notification(method: &str, params: &impl Serialize) -> Bytes {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string().into()
}
