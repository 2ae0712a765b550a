//! Server-sent events: their format, and the stream that answers one slow request.
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

/// The interval of comments, which keep intermediaries from treating the connection as dead.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// Asks nginx not to buffer events.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A comment, which clients ignore.
pub(super) const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// Returns an event. The data is JSON, and so one line.
pub(super) fn event(name: Option<&str>, id: Option<&str>, data: &[u8]) -> Bytes {
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

/// Returns the parts of an event `message`, whose data is sent unchanged: its share is held until then.
pub(super) fn message(data: Bytes) -> [Bytes; 3] {
    [Bytes::from_static(b"event: message\ndata: "), data, Bytes::from_static(b"\n\n")]
}

/// Returns the response that sends a stream.
pub(super) fn response(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let mut response = hyper::Response::new(ResponseBody::streamed(Box::pin(events)));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, EVENT_STREAM);
    headers.insert(CACHE_CONTROL, NO_STORE);
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// An answer in progress, with the notifications before it.
pub(super) struct PendingAnswer {
    /// Resolves with the event to send, or with `None` if the client has cancelled the request.
    pub answer: Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>,
    /// `None` if the client receives no notifications.
    pub said: Option<mpsc::Receiver<Bytes>>,
}

/// Returns the stream that sends notifications while an answer is in progress, and then the answer as its
/// last event.
pub(super) fn of(
    pending: PendingAnswer,
    first: Option<Bytes>,
    keep_alive: Duration,
) -> impl Stream<Item = Bytes> + Send {
    let mut ticks = interval_at(Instant::now() + keep_alive, keep_alive);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first bytes send the head at once.
    let first = first.map_or(COMMENT, |said| event(None, None, &said));
    let state = (Some(pending), Some(first), ticks);
    stream::unfold(state, |(pending, first, mut ticks)| async move {
        if let Some(first) = first {
            return Some((first, (pending, None, ticks)));
        }
        let mut pending = pending?;
        tokio::select! {
            biased;
            Some(said) = next(&mut pending.said) => {
                Some((event(None, None, &said), (Some(pending), None, ticks)))
            }
            answer = &mut pending.answer => {
                // Earlier notifications arrive before the answer.
                let mut rest = Vec::new();
                while let Some(said) = now(&mut pending.said) {
                    rest.extend_from_slice(&event(None, None, &said));
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

/// Returns the next notification; never resolves if there cannot be one.
pub(super) async fn next(said: &mut Option<mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    match said {
        Some(said) => said.recv().await,
        None => std::future::pending().await,
    }
}

/// Returns the next notification if it is already available.
pub(super) fn now(said: &mut Option<mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    said.as_mut()?.try_recv().ok()
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;

    #[test]
    fn an_event_has_its_fields() {
        assert_eq!(event(None, None, b"{}"), "data: {}\n\n");
        assert_eq!(event(Some("x"), Some("7"), b"{}"), "event: x\nid: 7\ndata: {}\n\n");
    }

    #[tokio::test]
    async fn what_is_said_comes_before_the_answer_and_comments_between() {
        let (sender, said) = mpsc::channel(4);
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let answer = Box::pin(async move {
            let _ = gone.await;
            let _ = sender.send(Bytes::from_static(b"2")).await;
            Some(event(None, None, b"3"))
        });
        let pending = PendingAnswer { answer, said: Some(said) };
        let mut stream = Box::pin(of(pending, Some(Bytes::from_static(b"1")), Duration::from_millis(1)));
        assert_eq!(stream.next().await.unwrap(), "data: 1\n\n");
        assert_eq!(stream.next().await.unwrap(), COMMENT);
        go.send(()).unwrap();
        let rest: Vec<Bytes> = stream.filter(|event| std::future::ready(*event != COMMENT)).collect().await;
        assert_eq!(rest.concat(), b"data: 2\n\ndata: 3\n\n");
    }
}
