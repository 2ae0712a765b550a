//! Formats server-sent events, and answers slow requests with streams of server-sent events.
//!
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html>

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::encode::Response;
use crate::limits::response_body::ResponseBody;

/// Interval between comments, which prevent intermediaries from closing an idle connection.
pub(super) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// Header that makes nginx pass events on without buffering.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Comment in an event stream, which clients ignore.
pub(super) const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// Formats a server-sent event. The data must be a single line, such as compact JSON.
pub(super) fn format_event(name: Option<&str>, id: Option<&str>, data: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(data.len() + 64);
    for (field, value) in [("event", name), ("id", id)] {
        if let Some(value) = value {
            event.extend_from_slice(format!("{field}: {value}\n").as_bytes());
        }
    }
    event.extend_from_slice(b"data: ");
    event.extend_from_slice(data);
    event.extend_from_slice(b"\n\n");
    event.into()
}

/// Returns the pieces of a server-sent event `message`. The data is not copied, so that its share of the
/// unread bytes is held until the data is sent.
pub(super) fn message_event_chunks(data: Bytes) -> [Bytes; 3] {
    [Bytes::from_static(b"event: message\ndata: "), data, Bytes::from_static(b"\n\n")]
}

/// Returns the HTTP response that sends a stream of events.
pub(super) fn event_stream_response(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let mut response = hyper::Response::new(ResponseBody::from_stream(Box::pin(events)));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, EVENT_STREAM);
    headers.insert(CACHE_CONTROL, NO_STORE);
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// An answer in progress, with the notifications that precede the answer.
pub(super) struct PendingAnswer {
    /// Resolves to the event to send, or to `None` if the client has cancelled the request.
    pub answer: Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>,
    /// Notifications to send before the answer; `None` if the client accepts no notifications.
    pub notifications: Option<mpsc::Receiver<Bytes>>,
}

/// Returns a stream that sends notifications while an answer is in progress, and then the answer as the last
/// event.
pub(super) fn events_until_answer(
    pending: PendingAnswer,
    first_notification: Option<Bytes>,
    keep_alive: Duration,
) -> impl Stream<Item = Bytes> + Send {
    let mut ticks = interval_at(Instant::now() + keep_alive, keep_alive);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first bytes make hyper send the response head immediately.
    let first_notification = first_notification.map_or(COMMENT, |said| format_event(None, None, &said));
    let state = (Some(pending), Some(first_notification), ticks);
    stream::unfold(state, |(pending, first_notification, mut ticks)| async move {
        if let Some(first_notification) = first_notification {
            return Some((first_notification, (pending, None, ticks)));
        }
        let mut pending = pending?;
        tokio::select! {
            biased;
            Some(said) = next_notification(&mut pending.notifications) => {
                Some((format_event(None, None, &said), (Some(pending), None, ticks)))
            }
            answer = &mut pending.answer => {
                // Notifications that were sent before the answer must also arrive before the answer.
                let mut rest = Vec::new();
                while let Some(said) = try_next_notification(&mut pending.notifications) {
                    rest.extend_from_slice(&format_event(None, None, &said));
                }
                match answer {
                    Some(answer) if rest.is_empty() => Some((answer, (None, None, ticks))),
                    Some(answer) => {
                        rest.extend_from_slice(&answer);
                        Some((rest.into(), (None, None, ticks)))
                    }
                    None => None,
                }
            }
            _ = ticks.tick() => Some((COMMENT, (Some(pending), None, ticks))),
        }
    })
}

/// Waits for the next notification. Never resolves if `notifications` is `None`.
pub(super) async fn next_notification(notifications: &mut Option<mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    match notifications {
        Some(notifications) => notifications.recv().await,
        None => std::future::pending().await,
    }
}

/// Returns the next notification, or `None` if no notification is available without waiting.
pub(super) fn try_next_notification(notifications: &mut Option<mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    notifications.as_mut()?.try_recv().ok()
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;

    #[test]
    fn an_event_has_its_fields() {
        assert_eq!(format_event(None, None, b"{}"), "data: {}\n\n");
        assert_eq!(format_event(Some("x"), Some("7"), b"{}"), "event: x\nid: 7\ndata: {}\n\n");
    }

    #[tokio::test]
    async fn what_is_said_comes_before_the_answer_and_comments_between() {
        let (sender, said) = mpsc::channel(4);
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let answer = Box::pin(async move {
            let _ = gone.await;
            let _ = sender.send(Bytes::from_static(b"2")).await;
            Some(format_event(None, None, b"3"))
        });
        let pending = PendingAnswer { answer, notifications: Some(said) };
        let mut stream =
            Box::pin(events_until_answer(pending, Some(Bytes::from_static(b"1")), Duration::from_millis(1)));
        assert_eq!(stream.next().await.unwrap(), "data: 1\n\n");
        assert_eq!(stream.next().await.unwrap(), COMMENT);
        go.send(()).unwrap();
        let rest: Vec<Bytes> = stream.filter(|event| std::future::ready(*event != COMMENT)).collect().await;
        assert_eq!(rest.concat(), b"data: 2\n\ndata: 3\n\n");
    }
}
