//! The sessions of revision 2024-11-05 on `/mcp/streamable`.
//!
//! A session remembers what its handshake has agreed on. It is of one process and one credential, gives no
//! right, and ends when it is deleted, after half an hour without a request, if its client begins too many
//! others, or, if its client reads its answers from a stream, with that stream. What runs for it ends, too.
//! Each request authenticates itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use hyper::header::{HeaderMap, HeaderName};
use svc_core::entropy::Entropy;
use svc_core::{Client, Code, Error, Result};
use svc_mcp_stdio::asked::{Agreed, Agreement};
use svc_mcp_stdio::connection::Connection;
use svc_mcp_stdio::revision::Revision;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::event_stream::{self, COMMENT, KEEP_ALIVE};

/// The header that names a session.
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Sessions of one server.
const SESSIONS_MAX: usize = 1000;
/// Sessions of one credential: the one that was used least recently, and is not in use, makes room.
const OF_ONE_MAX: usize = 100;
/// Sessions of one client, which may have many credentials.
const OF_CLIENT_MAX: usize = 500;
/// How long a session lasts without a request.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// Requests of a session whose answers are made or wait to be sent on its stream.
const ANSWERS_MAX: usize = 64;

/// The sessions of this server.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Arc<Session>>>);

/// Whose session it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// The mark of the credential.
    pub mark: [u8; 32],
    /// Whom its requests count against.
    pub client: Client,
}

/// A session.
pub(super) struct Session {
    pub id: String,
    owner: Owner,
    state: Mutex<State>,
    /// The stream that brings its answers, if its client reads them from one.
    stream: Option<AnswerStream>,
    is_over: watch::Sender<bool>,
}

struct State {
    agreed: Agreed,
    used: Instant,
}

/// The sending end of a session's stream.
struct AnswerStream {
    answers: mpsc::Sender<Bytes>,
    places: Arc<Semaphore>,
    /// What requests know of the session as a connection.
    connection: Arc<Connection>,
}

/// A place for one answer on a session's stream, which is taken until the answer is sent.
pub(super) struct Place {
    /// Where the answer goes, and what is said before it.
    pub answers: mpsc::Sender<Bytes>,
    pub permit: OwnedSemaphorePermit,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    /// Begins a session.
    pub fn begin(&self, owner: Owner, agreed: Agreed) -> Result<Arc<Session>> {
        self.add(owner, agreed, None)
    }

    /// Begins a session whose answers are read from a stream, and returns the stream.
    ///
    /// Its first event says where to send messages. The stream ends with the session or once `until`
    /// resolves, and the session ends when the stream is dropped.
    pub fn begin_stream(
        self: &Arc<Self>,
        owner: Owner,
        address: impl FnOnce(&str) -> String,
        until: impl Future<Output = ()> + Send + 'static,
    ) -> Result<impl Stream<Item = Bytes> + Send + 'static> {
        let (answers, receiver) = mpsc::channel(ANSWERS_MAX);
        let (connection, told) = Connection::new();
        let stream = AnswerStream { answers, places: Arc::new(Semaphore::new(ANSWERS_MAX)), connection };
        let session = self.add(owner, Agreed::on(Revision::V20241105), Some(stream))?;
        let endpoint = event_stream::event(Some("endpoint"), None, address(&session.id).as_bytes());
        let mut ticks = interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let until = Box::pin(futures_util::future::select(Box::pin(session.over()), Box::pin(until)));
        let guard = Guard { all: Arc::clone(self), session };
        let state = (Some(endpoint), (receiver, told), ticks, until, guard);
        Ok(stream::unfold(
            state,
            |(first, (mut receiver, mut told), mut ticks, mut until, guard)| async move {
                if let Some(first) = first {
                    return Some((
                        [first, Bytes::new(), Bytes::new()],
                        (None, (receiver, told), ticks, until, guard),
                    ));
                }
                let parts = tokio::select! {
                    _ = &mut until => return None,
                    answer = receiver.recv() => event_stream::message(answer?),
                    Some(notice) = told.recv() => event_stream::message(notice),
                    _ = ticks.tick() => {
                        // A stream that is read is a session in use.
                        guard.session.touch();
                        [COMMENT, Bytes::new(), Bytes::new()]
                    }
                };
                Some((parts, (None, (receiver, told), ticks, until, guard)))
            },
        )
        .flat_map(|parts| stream::iter(parts.into_iter().filter(|part| !part.is_empty()))))
    }

    fn add(&self, owner: Owner, agreed: Agreed, stream: Option<AnswerStream>) -> Result<Arc<Session>> {
        let id = URL_SAFE_NO_PAD.encode(Entropy::default().bytes::<16>()?);
        let now = Instant::now();
        let mut all = locked(&self.0);
        if all.len() >= SESSIONS_MAX {
            all.retain(|_, session| !session.is_idle(now));
        }
        let own = || all.values().filter(|session| session.owner.mark == owner.mark);
        if own().count() >= OF_ONE_MAX
            && let Some(oldest) =
                own().filter(|session| !session.is_in_use()).min_by_key(|session| session.used())
        {
            let oldest = oldest.id.clone();
            all.remove(&oldest);
        }
        let of = |same: fn(&Owner, &Owner) -> bool| {
            all.values().filter(|session| same(&session.owner, &owner)).count()
        };
        let is_full = all.len() >= SESSIONS_MAX
            || of(|one, other| one.mark == other.mark) >= OF_ONE_MAX
            || of(|one, other| one.client == other.client) >= OF_CLIENT_MAX;
        if is_full {
            return Err(Error::new(Code::Overloaded, "there are too many sessions: end those not needed"));
        }
        let state = Mutex::new(State { agreed, used: now });
        let is_over = watch::Sender::new(false);
        let session = Arc::new(Session { id: id.clone(), owner, state, stream, is_over });
        all.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// Returns a session of this credential. One of another credential is not told from none.
    pub fn of(&self, id: &str, mark: [u8; 32]) -> Result<Arc<Session>> {
        let found = locked(&self.0).get(id).filter(|session| session.owner.mark == mark).cloned();
        let session = found.ok_or_else(missing)?;
        if session.is_idle(Instant::now()) {
            self.end(&session);
            return Err(missing());
        }
        session.touch();
        Ok(session)
    }

    /// Ends a session, and what runs for it.
    pub fn end(&self, session: &Session) {
        locked(&self.0).remove(&session.id);
        session.is_over.send_replace(true);
    }
}

/// What to do without a session.
const AGAIN: &str = "Begin a new session: send `initialize` again, without `Mcp-Session-Id`.";

fn missing() -> Error {
    Error::new(Code::NotFound, "there is no such session").with_next(AGAIN)
}

/// Returns the error of a wait whose session has ended.
pub(super) fn ended() -> Error {
    Error::new(Code::NotFound, "the session has ended").with_next(AGAIN)
}

impl Session {
    fn used(&self) -> Instant {
        locked(&self.state).used
    }

    /// Whether a request runs for it, or its stream is open: they hold it.
    fn is_in_use(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }

    fn is_idle(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used()) > IDLE_MAX
    }

    /// Notes that it is in use.
    pub fn touch(&self) {
        locked(&self.state).used = Instant::now();
    }

    /// Returns what its handshake has agreed on.
    pub fn agreed(&self) -> Agreed {
        locked(&self.state).agreed
    }

    /// Notes what a request has agreed on.
    pub fn agree(&self, agreement: Agreement) {
        let mut state = locked(&self.state);
        state.agreed = agreement.after(state.agreed);
    }

    /// Takes a place on its stream, if its client reads its answers from one.
    pub fn place(&self) -> Option<Result<Place>> {
        let stream = self.stream.as_ref()?;
        let permit = Arc::clone(&stream.places).try_acquire_owned().map_err(|_| {
            Error::new(
                Code::Overloaded,
                format!("{ANSWERS_MAX} requests of this session are not answered yet"),
            )
        });
        Some(permit.map(|permit| Place { answers: stream.answers.clone(), permit }))
    }

    /// Returns what its requests know of it, if it is a connection.
    pub fn connection(&self) -> Option<Arc<Connection>> {
        self.stream.as_ref().map(|stream| Arc::clone(&stream.connection))
    }

    /// Returns what resolves when the session is over. It does not keep the session.
    pub fn over(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut is_over = self.is_over.subscribe();
        async move {
            // It is over, too, if nobody is left who could end it.
            let _ = is_over.wait_for(|is_over| *is_over).await;
        }
    }
}

/// Ends a session when its stream is dropped.
struct Guard {
    all: Arc<Sessions>,
    session: Arc<Session>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.all.end(&self.session);
    }
}

/// Returns the session that a request names, by its header or, for a stream, in its query.
///
/// Fails with 404 if the name cannot be one.
pub(super) fn named(headers: &HeaderMap, query: &[(String, String)]) -> Result<Option<String>> {
    if let Some(id) = headers.get(SESSION) {
        return id.to_str().map(|id| Some(id.to_owned())).map_err(|_| missing());
    }
    Ok(query.iter().find(|(name, _)| name == "sessionId").map(|(_, id)| id.clone()))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn agreed() -> Agreed {
        Agreed::on(Revision::V20241105)
    }

    fn owner(number: u8) -> Owner {
        Owner { mark: [number; 32], client: Client::at([127, 0, 0, number].into()) }
    }

    #[tokio::test]
    async fn a_session_is_of_one_credential_until_it_ends() {
        let all = Sessions::default();
        let session = all.begin(owner(1), agreed()).unwrap();
        assert_eq!(all.of(&session.id, [1; 32]).unwrap().id, session.id);
        assert_eq!(all.of(&session.id, [2; 32]).map(drop).unwrap_err().code(), Code::NotFound);
        let over = session.over();
        all.end(&session);
        assert!(all.of(&session.id, [1; 32]).is_err());
        assert!(over.now_or_never().is_some(), "what runs for it ends, though it is held");
    }

    #[tokio::test]
    async fn there_are_no_more_than_a_number_of_them() {
        let all = Sessions::default();
        let first = all.begin(owner(0), agreed()).unwrap();
        for _ in 0..OF_ONE_MAX {
            all.begin(owner(0), agreed()).unwrap();
        }
        assert_eq!(locked(&all.0).len(), OF_ONE_MAX);
        assert!(all.of(&first.id, [0; 32]).is_ok(), "it is in use, so another one made room");
        let id = std::mem::take(&mut first.id.clone());
        drop(first);
        for _ in 0..OF_ONE_MAX {
            all.begin(owner(0), agreed()).unwrap();
        }
        assert!(all.of(&id, [0; 32]).is_err(), "the least recently used one of a credential makes room");
        let held: Vec<_> = (0..OF_ONE_MAX).map(|_| all.begin(owner(1), agreed()).unwrap()).collect();
        assert_eq!(all.begin(owner(1), agreed()).map(drop).unwrap_err().code(), Code::Overloaded);
        drop(held);
        for number in 2..=9 {
            (0..OF_ONE_MAX).for_each(|_| drop(all.begin(owner(number), agreed()).unwrap()));
        }
        assert_eq!(all.begin(owner(10), agreed()).map(drop).unwrap_err().code(), Code::Overloaded);
        all.begin(owner(9), agreed()).unwrap();
    }

    #[tokio::test]
    async fn a_client_with_many_credentials_leaves_room_to_others() {
        let all = Sessions::default();
        let client = Client::at([127, 0, 0, 1].into());
        let begin = |mark: u8, client| all.begin(Owner { mark: [mark; 32], client }, agreed());
        for mark in 0..5 {
            (0..OF_ONE_MAX).for_each(|_| drop(begin(mark, client).unwrap()));
        }
        assert_eq!(begin(5, client).map(drop).unwrap_err().code(), Code::Overloaded);
        begin(5, Client::at([127, 0, 0, 2].into())).unwrap();
    }

    #[tokio::test]
    async fn a_stream_begins_with_the_address_and_ends_its_session() {
        let all = Arc::new(Sessions::default());
        let address = |id: &str| format!("/x?sessionId={id}");
        let mut stream = Box::pin(all.begin_stream(owner(1), address, std::future::pending()).unwrap());
        let first = String::from_utf8(stream.next().await.unwrap().to_vec()).unwrap();
        let id = first.trim().rsplit('=').next().unwrap().to_owned();
        assert_eq!(first, format!("event: endpoint\ndata: /x?sessionId={id}\n\n"));
        let session = all.of(&id, [1; 32]).unwrap();
        let places: Vec<Place> = (0..ANSWERS_MAX).map(|_| session.place().unwrap().unwrap()).collect();
        assert_eq!(session.place().unwrap().map(drop).unwrap_err().code(), Code::Overloaded);
        places[0].answers.send(Bytes::from_static(b"{}")).await.unwrap();
        let message = [stream.next().await, stream.next().await, stream.next().await];
        assert_eq!(message.map(Option::unwrap).concat(), b"event: message\ndata: {}\n\n");
        drop(stream);
        assert!(locked(&all.0).is_empty() && session.over().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_session() {
        let all = Arc::new(Sessions::default());
        let mut stream = Box::pin(all.begin_stream(owner(1), str::to_owned, std::future::pending()).unwrap());
        stream.next().await.unwrap();
        let session = locked(&all.0).values().next().cloned().unwrap();
        let place = session.place().unwrap().unwrap();
        all.end(&session);
        assert!(stream.next().now_or_never().unwrap().is_none(), "though a request holds a place");
        drop(place);
    }
}
