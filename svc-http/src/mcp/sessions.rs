//! Manages the sessions of MCP revision 2024-11-05 on `/mcp/streamable`.
//!
//! A session stores the result of its handshake, in one process and for one credential. A session grants no
//! rights: each request is authenticated separately. A session ends when it is deleted, after half an hour
//! without a request, when its client begins too many other sessions, when the server has too many sessions
//! and the session's holder has the most, or when the stream with the session's answers ends. The requests of
//! a session end with the session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use hyper::header::{HeaderMap, HeaderName};
use svc_core::entropy::Entropy;
use svc_core::share::{CeilingScope, Quotas};
use svc_core::{Ceiling, Code, Error, Holder, PlaceGuard, Result};
use svc_mcp_stdio::connection::Connection;
use svc_mcp_stdio::request_context::{AgreedSettings, SettingsChange};
use svc_mcp_stdio::revision::Revision;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::event_stream::{self, COMMENT, KEEP_ALIVE_INTERVAL};

/// Header with the id of a session.
pub(super) const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
/// Maximum sessions of one server.
pub(crate) const SESSIONS_MAX: usize = 1000;
/// Maximum sessions of one credential. Beyond this limit, the server evicts the least recently used session
/// that is not in use.
pub(crate) const CREDENTIAL_SESSIONS_MAX: usize = 100;
/// Maximum sessions of one client, over all credentials of the client.
pub(crate) const CLIENT_SESSIONS_MAX: usize = 500;
/// Time without a request after which a session ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Maximum answers of one session that are in progress or wait to be sent on its stream.
pub(crate) const ANSWERS_MAX: usize = 64;

/// All sessions of this server.
pub(super) struct Sessions {
    all: Mutex<HashMap<String, Arc<Session>>>,
    places: Ceiling,
}

/// Owner of a session: a credential, and the holder of the session's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionOwner {
    /// Hash that identifies the credential.
    pub credential_hash: [u8; 32],
    /// Holder to which the slot of the session is charged.
    pub holder: Holder,
}

/// A session of an MCP client.
pub(super) struct Session {
    pub id: String,
    owner: SessionOwner,
    _place: PlaceGuard,
    state: Mutex<State>,
    /// Stream for the answers of the session; `None` if the answers are the responses to POSTs.
    stream: Option<AnswerSender>,
    has_ended: watch::Sender<bool>,
}

struct State {
    settings: AgreedSettings,
    used: Instant,
}

/// The sending end of a session's stream.
struct AnswerSender {
    answers: mpsc::Sender<Bytes>,
    places: Arc<Semaphore>,
    /// State that the requests of the session share, as on a connection.
    connection: Arc<Connection>,
}

/// A slot for one answer on a session's stream, held until the answer is sent.
pub(super) struct AnswerSlot {
    /// Sender for the answer and for the notifications that precede it.
    pub answers: mpsc::Sender<Bytes>,
    pub permit: OwnedSemaphorePermit,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    /// Begins a session whose answers are the responses to POSTs.
    pub fn begin(&self, owner: SessionOwner, settings: AgreedSettings) -> Result<Arc<Session>> {
        self.add_session(owner, settings, None)
    }

    /// Begins a session whose answers are sent on a stream, and returns the stream.
    ///
    /// The first event of the stream contains the URL for messages. The stream ends with the session or once
    /// `until` resolves, and the session ends when the stream is dropped.
    pub fn begin_stream(
        self: &Arc<Self>,
        owner: SessionOwner,
        address: impl FnOnce(&str) -> String,
        until: impl Future<Output = ()> + Send + 'static,
    ) -> Result<impl Stream<Item = Bytes> + Send + 'static> {
        let (answers, receiver) = mpsc::channel(ANSWERS_MAX);
        let (connection, told) = Connection::new();
        let stream = AnswerSender { answers, places: Arc::new(Semaphore::new(ANSWERS_MAX)), connection };
        let session =
            self.add_session(owner, AgreedSettings::for_revision(Revision::V20241105), Some(stream))?;
        let endpoint = event_stream::format_event(Some("endpoint"), None, address(&session.id).as_bytes());
        let mut ticks = interval_at(Instant::now() + KEEP_ALIVE_INTERVAL, KEEP_ALIVE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let until =
            Box::pin(futures_util::future::select(Box::pin(session.wait_until_ended()), Box::pin(until)));
        let guard = SessionGuard { all: Arc::clone(self), session };
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
                    answer = receiver.recv() => event_stream::message_event_chunks(answer?),
                    Some(notice) = told.recv() => event_stream::message_event_chunks(notice),
                    _ = ticks.tick() => {
                        // An open stream keeps its session in use.
                        guard.session.touch();
                        [COMMENT, Bytes::new(), Bytes::new()]
                    }
                };
                Some((parts, (None, (receiver, told), ticks, until, guard)))
            },
        )
        .flat_map(|parts| stream::iter(parts.into_iter().filter(|part| !part.is_empty()))))
    }

    fn add_session(
        &self,
        owner: SessionOwner,
        settings: AgreedSettings,
        stream: Option<AnswerSender>,
    ) -> Result<Arc<Session>> {
        let id = URL_SAFE_NO_PAD.encode(Entropy::default().bytes::<16>()?);
        let now = Instant::now();
        let mut all = locked(&self.all);
        if all.len() >= SESSIONS_MAX {
            all.retain(|_, session| !session.is_idle(now));
        }
        let own = || all.values().filter(|session| session.owner.credential_hash == owner.credential_hash);
        if own().count() >= CREDENTIAL_SESSIONS_MAX {
            let evicted = longest_idle(own()).ok_or_else(too_many_sessions_error)?;
            evict_session(&mut all, &evicted);
        }
        let place = match self.places.try_take(owner.holder, 1) {
            Ok(place) => place,
            Err(scope) => {
                let evicted = session_to_evict(&all, owner.holder, scope);
                evict_session(&mut all, &evicted.ok_or_else(|| self.places.exhausted(owner.holder, 1))?);
                // The new session replaces the evicted session, even if the holder's share is smaller than
                // before.
                self.places.take_beyond_limits(owner.holder, 1)
            }
        };
        let state = Mutex::new(State { settings, used: now });
        let has_ended = watch::Sender::new(false);
        let session = Arc::new(Session { id: id.clone(), owner, _place: place, state, stream, has_ended });
        all.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// Returns the session with this id, and marks the session as used. Fails with 404 if the credential
    /// `credential_hash` owns no live session with the id.
    pub fn find(&self, id: &str, credential_hash: [u8; 32]) -> Result<Arc<Session>> {
        let found = locked(&self.all)
            .get(id)
            .filter(|session| session.owner.credential_hash == credential_hash)
            .cloned();
        let session = found.ok_or_else(session_not_found_error)?;
        if session.is_idle(Instant::now()) {
            self.end(&session);
            return Err(session_not_found_error());
        }
        session.touch();
        Ok(session)
    }

    /// Ends a session and its requests.
    pub fn end(&self, session: &Session) {
        locked(&self.all).remove(&session.id);
        session.has_ended.send_replace(true);
    }
}

impl Default for Sessions {
    fn default() -> Self {
        let quotas = Quotas { client: Some(CLIENT_SESSIONS_MAX), ..Quotas::default() };
        Self { all: Mutex::default(), places: Ceiling::new("MCP sessions", SESSIONS_MAX, quotas) }
    }
}

/// Returns the id of the least recently used session that is not in use.
fn longest_idle<'a>(sessions: impl Iterator<Item = &'a Arc<Session>>) -> Option<String> {
    let unused = sessions.filter(|session| !session.is_in_use());
    unused.min_by_key(|session| session.last_used()).map(|session| session.id.clone())
}

/// Returns the id of the session to evict in the given scope, or `None` if no session may be evicted.
///
/// This is the least recently used session of the client with the most sessions, in the workspace with the
/// most sessions. Holders whose sessions are all in use are skipped.
///
/// A session whose holder has fewer sessions than the newcomer is never evicted.
fn session_to_evict(
    all: &HashMap<String, Arc<Session>>,
    new_holder: Holder,
    scope: CeilingScope,
) -> Option<String> {
    let mut workspaces = HashMap::new();
    let mut clients = HashMap::new();
    for Holder { client, workspace } in all.values().map(|session| session.owner.holder) {
        *workspaces.entry(workspace).or_insert(0_usize) += 1;
        *clients.entry((workspace, client)).or_insert(0_usize) += 1;
    }
    let weight = |holder: Holder| {
        let Holder { client, workspace } = holder;
        let of_workspace = workspaces.get(&workspace).copied().unwrap_or(0);
        (of_workspace, clients.get(&(workspace, client)).copied().unwrap_or(0))
    };
    let is_wanted = |holder: Holder| match scope {
        CeilingScope::Client => holder == new_holder,
        CeilingScope::Workspace => holder.workspace == new_holder.workspace,
        CeilingScope::Server => true,
    };
    let own = weight(new_holder);
    let unused = all.values().filter(|session| !session.is_in_use());
    let holders = unused.map(|session| session.owner.holder).filter(|holder| is_wanted(*holder));
    let heaviest = holders.max_by_key(|holder| weight(*holder)).filter(|holder| weight(*holder) >= own)?;
    longest_idle(all.values().filter(|session| session.owner.holder == heaviest))
}

fn evict_session(all: &mut HashMap<String, Arc<Session>>, id: &str) {
    if let Some(session) = all.remove(id) {
        session.has_ended.send_replace(true);
    }
}

fn too_many_sessions_error() -> Error {
    let detail = format!(
        "this credential already has {CREDENTIAL_SESSIONS_MAX} MCP sessions in use: end those not needed"
    );
    Error::new(Code::Overloaded, detail).with("scope", CeilingScope::Client.name())
}

/// Advice in the error for a request whose session does not exist.
const BEGIN_SESSION_ADVICE: &str = "Begin a new session: send `initialize` again, without `Mcp-Session-Id`.";

fn session_not_found_error() -> Error {
    Error::new(Code::NotFound, "there is no such session").with_next(BEGIN_SESSION_ADVICE)
}

/// Returns the error for a wait whose session has ended.
pub(super) fn session_ended_error() -> Error {
    Error::new(Code::NotFound, "the session has ended").with_next(BEGIN_SESSION_ADVICE)
}

impl Session {
    fn last_used(&self) -> Instant {
        locked(&self.state).used
    }

    /// Returns whether a running request or an open stream holds a reference to the session.
    fn is_in_use(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }

    fn is_idle(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last_used()) > IDLE_TIMEOUT
    }

    /// Records that the session was used now.
    pub fn touch(&self) {
        locked(&self.state).used = Instant::now();
    }

    /// Returns the settings from the session's handshake, with later changes.
    pub fn settings(&self) -> AgreedSettings {
        locked(&self.state).settings
    }

    /// Applies a change of settings that a request has made.
    pub fn apply_change(&self, change: SettingsChange) {
        let mut state = locked(&self.state);
        state.settings = change.apply_to(state.settings);
    }

    /// Takes a slot for an answer on the session's stream, or returns `None` if the session has no stream.
    pub fn take_answer_slot(&self) -> Option<Result<AnswerSlot>> {
        let stream = self.stream.as_ref()?;
        let permit = Arc::clone(&stream.places).try_acquire_owned().map_err(|_| {
            Error::new(
                Code::Overloaded,
                format!("{ANSWERS_MAX} requests of this session are not answered yet"),
            )
            .with("scope", CeilingScope::Client.name())
        });
        Some(permit.map(|permit| AnswerSlot { answers: stream.answers.clone(), permit }))
    }

    /// Returns the state that the session's requests share, if the session has a stream.
    pub fn connection(&self) -> Option<Arc<Connection>> {
        self.stream.as_ref().map(|stream| Arc::clone(&stream.connection))
    }

    /// Returns a future that resolves when the session has ended. The future does not keep the session alive.
    pub fn wait_until_ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut is_over = self.has_ended.subscribe();
        async move {
            // The session has also ended once no sender remains.
            let _ = is_over.wait_for(|is_over| *is_over).await;
        }
    }
}

/// Guard that ends a session when its stream is dropped.
struct SessionGuard {
    all: Arc<Sessions>,
    session: Arc<Session>,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.all.end(&self.session);
    }
}

/// Returns the session id in the header `Mcp-Session-Id`, or else in the query field `sessionId`.
///
/// Fails with 404 if the header is not text.
pub(super) fn session_id(headers: &HeaderMap, query: &[(String, String)]) -> Result<Option<String>> {
    if let Some(id) = headers.get(SESSION_HEADER) {
        return id.to_str().map(|id| Some(id.to_owned())).map_err(|_| session_not_found_error());
    }
    Ok(query.iter().find(|(name, _)| name == "sessionId").map(|(_, id)| id.clone()))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn settings() -> AgreedSettings {
        AgreedSettings::for_revision(Revision::V20241105)
    }

    fn holder(workspace: u128, client: u8) -> Holder {
        let workspace = format!("00000000-0000-0000-0000-{workspace:012}").parse().unwrap();
        Holder { workspace, ..Holder::at([127, 0, 0, client].into()) }
    }

    /// Begins `count` sessions of one client, with as many credentials as necessary, numbered from `first`.
    fn begin(all: &Sessions, holder: Holder, first: u8, count: usize) -> Vec<Arc<Session>> {
        let owner = |number: usize| {
            let mark = [first + u8::try_from(number / CREDENTIAL_SESSIONS_MAX).unwrap(); 32];
            SessionOwner { credential_hash: mark, holder }
        };
        (0..count).map(|number| all.begin(owner(number), settings()).unwrap()).collect()
    }

    fn count_of(all: &Sessions, holder: Holder) -> usize {
        locked(&all.all).values().filter(|session| session.owner.holder == holder).count()
    }

    fn owner(number: u8) -> SessionOwner {
        SessionOwner { credential_hash: [number; 32], holder: holder(number.into(), number) }
    }

    #[tokio::test]
    async fn a_session_is_of_one_credential_until_it_ends() {
        let all = Sessions::default();
        let session = all.begin(owner(1), settings()).unwrap();
        assert_eq!(all.find(&session.id, [1; 32]).unwrap().id, session.id);
        assert_eq!(all.find(&session.id, [2; 32]).map(drop).unwrap_err().code(), Code::NotFound);
        let over = session.wait_until_ended();
        all.end(&session);
        assert!(all.find(&session.id, [1; 32]).is_err());
        assert!(over.now_or_never().is_some(), "what runs for it ends, though it is held");
    }

    #[tokio::test]
    async fn there_are_no_more_than_a_number_of_them() {
        let all = Sessions::default();
        let first = all.begin(owner(0), settings()).unwrap();
        for _ in 0..CREDENTIAL_SESSIONS_MAX {
            all.begin(owner(0), settings()).unwrap();
        }
        assert_eq!(locked(&all.all).len(), CREDENTIAL_SESSIONS_MAX);
        assert!(all.find(&first.id, [0; 32]).is_ok(), "it is in use, so another one made room");
        let id = std::mem::take(&mut first.id.clone());
        drop(first);
        for _ in 0..CREDENTIAL_SESSIONS_MAX {
            all.begin(owner(0), settings()).unwrap();
        }
        assert!(all.find(&id, [0; 32]).is_err(), "the least recently used one of a credential makes room");
        let held: Vec<_> =
            (0..CREDENTIAL_SESSIONS_MAX).map(|_| all.begin(owner(1), settings()).unwrap()).collect();
        assert_eq!(all.begin(owner(1), settings()).map(drop).unwrap_err().code(), Code::Overloaded);
        drop(held);
    }

    #[tokio::test]
    async fn a_full_server_evicts_a_session_of_the_heaviest_holder_that_has_one_not_in_use() {
        let all = Sessions::default();
        let mut in_use = begin(&all, holder(1, 1), 0, CLIENT_SESSIONS_MAX);
        in_use.extend(begin(&all, holder(1, 2), 60, SESSIONS_MAX / 4));
        let mut others = begin(&all, holder(2, 1), 120, SESSIONS_MAX / 8);
        others.extend(begin(&all, holder(2, 2), 160, SESSIONS_MAX / 8));
        let newcomer =
            || all.begin(SessionOwner { credential_hash: [200; 32], holder: holder(3, 1) }, settings());
        assert_eq!(newcomer().map(drop).unwrap_err().code(), Code::Overloaded, "all are in use");
        drop(others);
        assert!(newcomer().is_ok());
        let left = [holder(1, 1), holder(1, 2), holder(2, 1), holder(2, 2)].map(|one| count_of(&all, one));
        assert_eq!((left[0], left[1], left[2] + left[3]), (500, 250, 249));
        drop(in_use);
    }

    #[tokio::test]
    async fn a_full_server_evicts_the_idlest_session_of_the_heaviest_holder() {
        let all = Sessions::default();
        let heavy = holder(1, 1);
        let light = holder(1, 2);
        let ids = |sessions: Vec<Arc<Session>>| -> Vec<String> {
            sessions.iter().map(|session| session.id.clone()).collect()
        };
        let of_heavy = ids(begin(&all, heavy, 0, CLIENT_SESSIONS_MAX));
        let of_light = ids(begin(&all, light, 10, 250));
        assert_eq!(count_of(&all, heavy) + count_of(&all, light), 750, "one workspace has three quarters");
        let newcomer = begin(&all, holder(1, 3), 20, 1);
        assert_eq!((count_of(&all, heavy), count_of(&all, light)), (CLIENT_SESSIONS_MAX - 1, 250));
        assert!(all.find(&of_heavy[0], [0; 32]).is_err() && all.find(&of_heavy[1], [0; 32]).is_ok());
        let others = [begin(&all, holder(2, 1), 30, 125), begin(&all, holder(2, 2), 33, 125)];
        assert_eq!(count_of(&all, heavy), CLIENT_SESSIONS_MAX - 1, "there was room for another workspace");
        let third = begin(&all, holder(3, 1), 40, 1);
        assert_eq!(
            count_of(&all, heavy),
            CLIENT_SESSIONS_MAX - 2,
            "the heaviest workspace makes room for a third"
        );
        drop(begin(&all, heavy, 50, 3));
        assert_eq!(count_of(&all, heavy), CLIENT_SESSIONS_MAX - 2, "the heaviest makes room for itself");
        assert_eq!(count_of(&all, light), of_light.len());
        drop((newcomer, others, third));
    }

    #[tokio::test]
    async fn a_session_in_use_or_of_a_lighter_holder_makes_no_room() {
        let all = Sessions::default();
        let in_use = begin(&all, holder(1, 1), 0, CLIENT_SESSIONS_MAX);
        let lighter = begin(&all, holder(1, 2), 10, 100);
        drop(lighter);
        let refused = all.begin(SessionOwner { credential_hash: [99; 32], holder: holder(1, 1) }, settings());
        assert_eq!(refused.map(drop).unwrap_err().code(), Code::Overloaded);
        assert_eq!(count_of(&all, holder(1, 2)), 100);
        drop(in_use);
        all.begin(SessionOwner { credential_hash: [99; 32], holder: holder(1, 1) }, settings()).unwrap();
        assert_eq!(count_of(&all, holder(1, 1)), CLIENT_SESSIONS_MAX);
    }

    #[tokio::test]
    async fn a_stream_begins_with_the_address_and_ends_its_session() {
        let all = Arc::new(Sessions::default());
        let address = |id: &str| format!("/x?sessionId={id}");
        let mut stream = Box::pin(all.begin_stream(owner(1), address, std::future::pending()).unwrap());
        let first = String::from_utf8(stream.next().await.unwrap().to_vec()).unwrap();
        let id = first.trim().rsplit('=').next().unwrap().to_owned();
        assert_eq!(first, format!("event: endpoint\ndata: /x?sessionId={id}\n\n"));
        let session = all.find(&id, [1; 32]).unwrap();
        let places: Vec<AnswerSlot> =
            (0..ANSWERS_MAX).map(|_| session.take_answer_slot().unwrap().unwrap()).collect();
        assert_eq!(session.take_answer_slot().unwrap().map(drop).unwrap_err().code(), Code::Overloaded);
        places[0].answers.send(Bytes::from_static(b"{}")).await.unwrap();
        let message = [stream.next().await, stream.next().await, stream.next().await];
        assert_eq!(message.map(Option::unwrap).concat(), b"event: message\ndata: {}\n\n");
        drop(stream);
        assert!(locked(&all.all).is_empty() && session.wait_until_ended().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_session() {
        let all = Arc::new(Sessions::default());
        let mut stream = Box::pin(all.begin_stream(owner(1), str::to_owned, std::future::pending()).unwrap());
        stream.next().await.unwrap();
        let session = locked(&all.all).values().next().cloned().unwrap();
        let place = session.take_answer_slot().unwrap().unwrap();
        all.end(&session);
        assert!(stream.next().now_or_never().unwrap().is_none(), "though a request holds a place");
        drop(place);
    }
}
