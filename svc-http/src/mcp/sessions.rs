//! The sessions of revision 2024-11-05 on `/mcp/streamable`.
//!
//! A session remembers what its handshake has agreed on. It is of one process and one credential, gives no
//! right, and ends when it is deleted, after half an hour without a request, or, if its client reads its
//! answers from a stream, with that stream. Each request authenticates itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use hyper::header::{HeaderMap, HeaderName};
use svc_core::entropy::Entropy;
use svc_core::{Code, Error, Result};
use svc_mcp_stdio::asked::Agreed;
use svc_mcp_stdio::connection::Connection;
use svc_mcp_stdio::revision::Revision;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::event_stream::{self, COMMENT, KEEP_ALIVE};

/// The header that names a session.
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Sessions of one server.
const SESSIONS_MAX: usize = 1000;
/// How long a session lasts without a request.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// Answers that may wait to be read from a stream.
const ANSWERS_MAX: usize = 64;

/// The sessions of this server.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Arc<Session>>>);

/// A session.
pub(super) struct Session {
    pub id: String,
    /// The mark of its credential.
    mark: [u8; 32],
    state: Mutex<State>,
    /// Where its answers go, if its client reads them from a stream.
    answers: Option<mpsc::Sender<Bytes>>,
    /// What its requests know of it as a connection, then.
    connection: Option<Arc<Connection>>,
    /// Dropped with the session, so that what runs for it ends.
    ended: watch::Sender<()>,
}

struct State {
    agreed: Agreed,
    used: Instant,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    /// Begins a session of a credential.
    pub fn begin(&self, mark: [u8; 32], agreed: Agreed) -> Result<Arc<Session>> {
        self.add(mark, agreed, None, None)
    }

    /// Begins a session whose answers are read from a stream, and returns the stream.
    ///
    /// Its first event says where to send messages. The session ends when the stream is dropped.
    pub fn begin_stream(
        self: &Arc<Self>,
        mark: [u8; 32],
        address: impl FnOnce(&str) -> String,
        phase: impl Future<Output = ()> + Send + 'static,
    ) -> Result<impl Stream<Item = Bytes> + Send + 'static> {
        let (sender, receiver) = mpsc::channel(ANSWERS_MAX);
        let (connection, told) = Connection::new();
        let session = self.add(mark, Agreed::on(Revision::V20241105), Some(sender), Some(connection))?;
        let endpoint = event_stream::event(Some("endpoint"), None, address(&session.id).as_bytes());
        let guard = Guard { all: Arc::clone(self), id: session.id.clone() };
        // The sender in the map is the only one, so the stream ends with the session.
        drop(session);
        let mut ticks = interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let state = (Some(endpoint), (receiver, told), ticks, Box::pin(phase), guard);
        Ok(stream::unfold(
            state,
            |(first, (mut receiver, mut told), mut ticks, mut phase, guard)| async move {
                if let Some(first) = first {
                    return Some((first, (None, (receiver, told), ticks, phase, guard)));
                }
                let event = tokio::select! {
                    answer = receiver.recv() => event_stream::event(Some("message"), None, &answer?),
                    Some(notice) = told.recv() => event_stream::event(Some("message"), None, &notice),
                    _ = ticks.tick() => {
                        // A stream that is read is a session in use.
                        if let Some(session) = guard.all.find(&guard.id) {
                            session.touch();
                        }
                        COMMENT
                    }
                    () = &mut phase => return None,
                };
                Some((event, (None, (receiver, told), ticks, phase, guard)))
            },
        ))
    }

    fn add(
        &self,
        mark: [u8; 32],
        agreed: Agreed,
        answers: Option<mpsc::Sender<Bytes>>,
        connection: Option<Arc<Connection>>,
    ) -> Result<Arc<Session>> {
        let id = URL_SAFE_NO_PAD.encode(Entropy::default().bytes::<16>()?);
        let now = Instant::now();
        let mut all = locked(&self.0);
        if all.len() >= SESSIONS_MAX {
            all.retain(|_, session| !session.is_idle(now));
        }
        if all.len() >= SESSIONS_MAX {
            return Err(Error::new(Code::Overloaded, "the server is at its limit of sessions"));
        }
        let state = Mutex::new(State { agreed, used: now });
        let session = Arc::new(Session {
            id: id.clone(),
            mark,
            state,
            answers,
            connection,
            ended: watch::Sender::new(()),
        });
        all.insert(id, Arc::clone(&session));
        Ok(session)
    }

    fn find(&self, id: &str) -> Option<Arc<Session>> {
        locked(&self.0).get(id).cloned()
    }

    /// Returns a session of this credential. One of another credential is not told from none.
    pub fn of(&self, id: &str, mark: [u8; 32]) -> Result<Arc<Session>> {
        let found = self.find(id).filter(|session| session.mark == mark);
        match found {
            Some(session) if !session.is_idle(Instant::now()) => {
                session.touch();
                Ok(session)
            }
            Some(_) => {
                locked(&self.0).remove(id);
                Err(missing())
            }
            None => Err(missing()),
        }
    }

    /// Ends a session.
    pub fn end(&self, session: &Session) {
        locked(&self.0).remove(&session.id);
    }
}

fn missing() -> Error {
    Error::new(Code::NotFound, "there is no such session: begin a new one with initialize")
}

impl Session {
    fn is_idle(&self, now: Instant) -> bool {
        now.saturating_duration_since(locked(&self.state).used) > IDLE_MAX
    }

    fn touch(&self) {
        locked(&self.state).used = Instant::now();
    }

    /// Returns what its handshake has agreed on.
    pub fn agreed(&self) -> Agreed {
        locked(&self.state).agreed.clone()
    }

    /// Notes what was agreed on.
    pub fn agree(&self, agreed: Agreed) {
        locked(&self.state).agreed = agreed;
    }

    /// Returns where its answers go, if its client reads them from a stream.
    pub fn answers(&self) -> Option<mpsc::Sender<Bytes>> {
        self.answers.clone()
    }

    /// Returns what its requests know of it, if it is a connection.
    pub fn connection(&self) -> Option<Arc<Connection>> {
        self.connection.clone()
    }

    /// Returns what resolves when the session has ended.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ended = self.ended.subscribe();
        async move { while ended.changed().await.is_ok() {} }
    }
}

/// Ends a session when its stream is dropped.
struct Guard {
    all: Arc<Sessions>,
    id: String,
}

impl Drop for Guard {
    fn drop(&mut self) {
        locked(&self.all.0).remove(&self.id);
    }
}

/// Returns the session that a request names, by its header or, for a stream, in its query.
pub(super) fn named(headers: &HeaderMap, query: &[(String, String)]) -> Option<String> {
    let in_header = headers.get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
    in_header.or_else(|| query.iter().find(|(name, _)| name == "sessionId").map(|(_, id)| id.clone()))
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _};

    use super::*;

    fn agreed() -> Agreed {
        Agreed::on(Revision::V20241105)
    }

    #[tokio::test]
    async fn a_session_is_of_one_credential_until_it_ends() {
        let all = Sessions::default();
        let session = all.begin([1; 32], agreed()).unwrap();
        assert_eq!(all.of(&session.id, [1; 32]).unwrap().id, session.id);
        assert_eq!(all.of(&session.id, [2; 32]).map(drop).unwrap_err().code(), Code::NotFound);
        let ended = session.ended();
        all.end(&session);
        assert!(all.of(&session.id, [1; 32]).is_err());
        drop(session);
        assert!(ended.now_or_never().is_some(), "what runs for it ends");
    }

    #[tokio::test]
    async fn there_are_no_more_than_a_number_of_them() {
        let all = Sessions::default();
        for _ in 0..SESSIONS_MAX {
            all.begin([1; 32], agreed()).unwrap();
        }
        assert_eq!(all.begin([1; 32], agreed()).map(drop).unwrap_err().code(), Code::Overloaded);
    }

    #[tokio::test]
    async fn a_stream_begins_with_the_address_and_ends_its_session() {
        let all = Arc::new(Sessions::default());
        let address = |id: &str| format!("/x?sessionId={id}");
        let mut stream = Box::pin(all.begin_stream([1; 32], address, std::future::pending()).unwrap());
        let first = String::from_utf8(stream.next().await.unwrap().to_vec()).unwrap();
        let id = first.trim().rsplit('=').next().unwrap().to_owned();
        assert_eq!(first, format!("event: endpoint\ndata: /x?sessionId={id}\n\n"));
        let session = all.of(&id, [1; 32]).unwrap();
        session.answers().unwrap().send(Bytes::from_static(b"{}")).await.unwrap();
        assert_eq!(stream.next().await.unwrap(), "event: message\ndata: {}\n\n");
        drop(stream);
        assert!(locked(&all.0).is_empty());
    }
}
