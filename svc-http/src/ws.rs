//! `GET /ws/subscribe`: a workspace's events as they happen. The first frame from the client says who it is, what
//! it wants and from where on; then each event is a frame. There is no second way to events in here: a
//! subscription repeats the operation `wait_for_event`, which authenticates and filters each time, and goes on
//! from what it answered. So the order is that of the log, without gap or repetition, and a client that does not
//! read holds up nobody but itself.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::{SinkExt, StreamExt};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use hyper::header::{HeaderName, SEC_WEBSOCKET_VERSION};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use svc_core::id::WorkspaceId;
use svc_core::limits::WS_FRAME_MAX_BYTES;
use svc_core::op::{self, Reply, Surface};
use svc_core::{Code, Error, Result, Service};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, interval, sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use crate::decode;
use crate::encode::{self, Response};
use crate::limits::Permit;
use crate::server::{Phase, Server, closing};

const OPERATION: &str = "wait_for_event";
const SCHEMA_VERSION: u32 = 1;

/// How long the first frame may take.
const FIRST_FRAME: Duration = Duration::from_secs(10);
/// Time between two pings.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// A client that is silent for so long is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// How long a client may take to read one frame.
const SEND: Duration = Duration::from_secs(30);
/// How long a client may take over the closing handshake.
const CLOSE: Duration = Duration::from_secs(2);
/// How long one look waits. A credential that ended is noticed at the latest then.
const LOOK_SECS: i64 = 10;
/// How long to wait before asking again what could not be answered.
const RETRY: Duration = Duration::from_secs(1);

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Answers the handshake and leaves the connection to a task of its own.
pub(crate) fn upgrade(
    server: &Server,
    mut request: Request<Incoming>,
    peer: IpAddr,
    place: Permit,
) -> Result<Response> {
    let accept = handshake(request.headers())?;
    let credential = decode::bearer(request.headers())?;
    let upgraded = hyper::upgrade::on(&mut request);
    let client = Client {
        service: server.service.clone(),
        path: request.uri().path().to_owned(),
        peer,
        credential,
        phase: server.phase.subscribe(),
    };
    tokio::spawn(async move {
        client.serve(upgraded).await;
        drop(place);
    });
    let mut response = encode::json(StatusCode::SWITCHING_PROTOCOLS, Default::default());
    let headers = response.headers_mut();
    headers.clear();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

/// The answer to the client's key, if this is a WebSocket handshake.
fn handshake(headers: &HeaderMap) -> Result<HeaderValue> {
    let has = |name: HeaderName, wanted: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case(wanted))
    };
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| {
        has(CONNECTION, "upgrade") && has(UPGRADE, "websocket") && has(SEC_WEBSOCKET_VERSION, "13")
    });
    let key = key.ok_or_else(|| {
        Error::malformed("the route speaks WebSocket alone (RFC 6455, version 13, over HTTP/1.1)")
    })?;
    HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(Error::internal)
}

/// Who is at the other end.
struct Client {
    service: Service,
    path: String,
    peer: IpAddr,
    credential: Option<SecretString>,
    phase: watch::Receiver<Phase>,
}

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// We say so, with a code and a reason.
    Close(CloseCode, String),
    /// The other side is gone, or has closed.
    Gone,
}

impl End {
    fn policy(reason: impl Into<String>) -> Self {
        Self::Close(CloseCode::Policy, reason.into())
    }

    /// What the core's refusal means to a connection.
    fn refused(error: &Error) -> Self {
        let code = match error.code().status() {
            500 => CloseCode::Error,
            429 | 501.. => CloseCode::Again,
            _ => CloseCode::Policy,
        };
        Self::Close(code, format!("{}: {}", error.code().name(), error.detail()))
    }

    /// What an unreadable frame means.
    fn unreadable(error: &tungstenite::Error) -> Self {
        match error {
            tungstenite::Error::Capacity(_) => {
                Self::Close(CloseCode::Size, format!("a frame may have {WS_FRAME_MAX_BYTES} bytes"))
            }
            tungstenite::Error::Utf8(_) => {
                Self::Close(CloseCode::Invalid, "a text frame is UTF-8".to_owned())
            }
            tungstenite::Error::Protocol(error) => Self::Close(CloseCode::Protocol, error.to_string()),
            _ => Self::Gone,
        }
    }
}

/// What the first frame says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    token: Option<String>,
    filter: Map<String, Value>,
    after_id: Option<i64>,
    resume_token: Option<String>,
}

/// What is wanted, from where on.
#[derive(Debug)]
struct Subscription {
    credential: SecretString,
    workspace_id: String,
    filter: Map<String, Value>,
    after_id: Option<i64>,
}

impl Subscription {
    /// Reads the first frame. The filter's fields, the workspace apart, are the operation's to check.
    fn read(text: &str, sent: Option<&SecretString>) -> Result<Self, End> {
        let hello: Hello = serde_json::from_str(text)
            .map_err(|error| End::policy(format!("malformed-request: the first frame: {error}")))?;
        let malformed = |what: &str| End::policy(format!("malformed-request: {what}"));
        let credential = hello.token.map(SecretString::from).or_else(|| sent.cloned());
        let credential =
            credential.ok_or_else(|| End::policy("unauthenticated: the first frame has no token"))?;
        let Some(Value::String(workspace_id)) = hello.filter.get("workspace_id").cloned() else {
            return Err(malformed("`filter` needs a `workspace_id`"));
        };
        if let Some(name) = hello.filter.keys().find(|name| !FILTERS.contains(&name.as_str())) {
            return Err(malformed(&format!(
                "unknown field `{name}` in `filter`, expected {}",
                FILTERS.join(", ")
            )));
        }
        let after_id = match (hello.after_id, &hello.resume_token) {
            (Some(_), Some(_)) => {
                return Err(malformed("name either `after_id` or `resume_token`, not both"));
            }
            (None, Some(token)) => {
                let position = resumed(token, &workspace_id);
                Some(position.ok_or_else(|| malformed("`resume_token` is not one of this workspace"))?)
            }
            (after_id, None) => after_id,
        };
        Ok(Self { credential, workspace_id, filter: hello.filter, after_id })
    }

    /// The cursor at `after_id`, in one opaque word.
    fn resume_token(&self, after_id: i64) -> String {
        URL_SAFE_NO_PAD.encode(format!("v1:{}:{after_id}", self.workspace_id.to_ascii_lowercase()))
    }
}

const FILTERS: [&str; 5] = ["workspace_id", "channel_id", "thread_id", "member_id", "kind"];

/// The position in a resume token of `workspace_id`.
fn resumed(token: &str, workspace_id: &str) -> Option<i64> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let (workspace, position) = text.strip_prefix("v1:")?.split_once(':')?;
    let (issued, wanted) =
        (workspace.parse::<WorkspaceId>().ok()?, workspace_id.parse::<WorkspaceId>().ok()?);
    position.parse().ok().filter(|position| issued == wanted && *position >= 0)
}

/// What one look found.
struct Page {
    /// Events as they go out.
    frames: Vec<String>,
    /// How far the log was looked at; none if the answer does not say.
    after_id: Option<i64>,
    /// How far the log reached.
    room_lsn: i64,
}

impl Page {
    fn of(reply: &Reply) -> Result<Self> {
        let body: Value = serde_json::from_slice(&reply.body()?).map_err(Error::internal)?;
        let room_lsn = reply.lsn.unwrap_or(0);
        let Value::Object(mut body) = body else { return Err(Error::internal("a page is no object")) };
        let frames = match body.remove("items") {
            Some(Value::Array(items)) => items.into_iter().map(frame).collect(),
            _ => Vec::new(),
        };
        // Nothing matched up to where the log reached at the last look.
        let timed_out = body.contains_key("timed_out").then_some(room_lsn);
        let after_id = body.get("after_id").and_then(Value::as_i64).or(timed_out);
        Ok(Self { frames, after_id, room_lsn })
    }
}

/// An event as live frames have it: who did it stands at the top, too.
fn frame(mut event: Value) -> String {
    let attribution = event.pointer("/payload/attribution").cloned();
    if let (Some(members), Some(attribution)) = (event.as_object_mut(), attribution) {
        members.insert("attribution".to_owned(), attribution);
    }
    event.to_string()
}

impl Client {
    async fn serve(self, upgraded: OnUpgrade) {
        let Ok(upgraded) = upgraded.await else { return };
        let config = WebSocketConfig::default()
            .max_message_size(Some(WS_FRAME_MAX_BYTES))
            .max_frame_size(Some(WS_FRAME_MAX_BYTES))
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(0);
        let io = TokioIo::new(upgraded);
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        let mut heart = interval(HEARTBEAT);
        heart.reset();
        let mut line = Line { socket, heart, heard: Instant::now(), phase: self.phase.clone() };
        if let End::Close(code, reason) = self.subscribe(&mut line).await {
            line.close(code, reason).await;
        }
    }

    /// Delivers until the connection ends.
    async fn subscribe(&self, line: &mut Line) -> End {
        match self.deliver(line).await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn deliver(&self, line: &mut Line) -> Result<std::convert::Infallible, End> {
        let text = timeout(FIRST_FRAME, line.first_frame())
            .await
            .unwrap_or_else(|_| Err(End::policy("unauthenticated: the first frame did not come in time")))?;
        let subscription = Subscription::read(&text, self.credential.as_ref())?;
        // This look counts as a request, tells whether the caller may, and finds the end of the log.
        let position = subscription.after_id.unwrap_or(i64::MAX);
        let request = self.request(&subscription, position, 0, false);
        let reply = line.meanwhile(self.service.ask(OPERATION, request)).await?;
        let mut page = reply.and_then(|reply| Page::of(&reply)).map_err(|error| End::refused(&error))?;
        let mut after_id = subscription.after_id.unwrap_or(page.room_lsn);
        let ack = json!({
            "type": "subscribe_ack",
            "schema_version": SCHEMA_VERSION,
            "resume_token": subscription.resume_token(after_id),
            "after_id": after_id,
            "room_lsn": page.room_lsn,
        });
        line.send(Message::text(ack.to_string())).await?;
        loop {
            for frame in page.frames {
                line.send(Message::text(frame)).await?;
            }
            after_id = after_id.max(page.after_id.unwrap_or(after_id));
            page = self.look(line, &subscription, after_id).await?;
        }
    }

    /// The next events, however long that takes.
    async fn look(&self, line: &mut Line, subscription: &Subscription, after_id: i64) -> Result<Page, End> {
        loop {
            let request = self.request(subscription, after_id, LOOK_SECS, true);
            let reply = line.meanwhile(self.service.ask(OPERATION, request)).await?;
            match reply.and_then(|reply| Page::of(&reply)) {
                Ok(page) => return Ok(page),
                Err(error) if matches!(error.code(), Code::Overloaded | Code::Unavailable) => {
                    line.meanwhile(sleep(RETRY)).await?;
                }
                Err(error) => return Err(End::refused(&error)),
            }
        }
    }

    fn request(
        &self,
        wanted: &Subscription,
        after_id: i64,
        timeout_secs: i64,
        follow_up: bool,
    ) -> op::Request {
        let mut input = wanted.filter.clone();
        input.insert("after_id".to_owned(), after_id.into());
        input.insert("timeout_secs".to_owned(), timeout_secs.into());
        op::Request {
            path: self.path.clone(),
            peer: Some(self.peer),
            follow_up,
            ..op::Request::json(
                Surface::Rest,
                Some(wanted.credential.clone()),
                Value::from(input).to_string(),
            )
        }
    }
}

const READ_BUFFER: usize = 4096;

/// The connection.
struct Line {
    socket: Socket,
    heart: Interval,
    heard: Instant,
    phase: watch::Receiver<Phase>,
}

impl Line {
    async fn first_frame(&mut self) -> Result<String, End> {
        loop {
            match self.meanwhile_or_frame(std::future::pending::<()>()).await? {
                Happened::Frame(Message::Text(text)) => return Ok(text.as_str().to_owned()),
                Happened::Frame(_) => {
                    return Err(End::policy("malformed-request: the first frame is JSON text"));
                }
                Happened::Done(()) => {}
            }
        }
    }

    /// What `work` comes to, while the connection is kept alive. The client has nothing more to say.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> Result<T, End> {
        match self.meanwhile_or_frame(work).await? {
            Happened::Done(outcome) => Ok(outcome),
            Happened::Frame(_) => Err(End::policy("malformed-request: only the first frame is read")),
        }
    }

    async fn meanwhile_or_frame<T>(&mut self, work: impl Future<Output = T>) -> Result<Happened<T>, End> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                outcome = &mut work => return Ok(Happened::Done(outcome)),
                read = self.socket.next() => {
                    let message = read.ok_or(End::Gone)?.map_err(|error| End::unreadable(&error))?;
                    self.heard = Instant::now();
                    match message {
                        Message::Close(_) => return Err(End::Gone),
                        Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
                        frame => return Ok(Happened::Frame(frame)),
                    }
                }
                _ = self.heart.tick() => {
                    if self.heard.elapsed() > SILENCE {
                        return Err(End::Gone);
                    }
                    self.send(Message::Ping(Default::default())).await?;
                }
                () = closing(&mut self.phase) => {
                    return Err(End::Close(CloseCode::Away, "the server is closing".to_owned()));
                }
            }
        }
    }

    /// Sends, and waits until the client's side has taken it.
    async fn send(&mut self, message: Message) -> Result<(), End> {
        let heartbeat = message.is_ping();
        match timeout(SEND, self.socket.send(message)).await {
            Ok(Ok(())) => {
                if !heartbeat {
                    self.heard = Instant::now();
                }
                Ok(())
            }
            // It does not read, or is gone.
            _ => Err(End::Gone),
        }
    }

    /// Says why, and lets the client answer.
    async fn close(mut self, code: CloseCode, reason: String) {
        let reason = reason.get(..reason.floor_char_boundary(REASON_MAX)).unwrap_or_default().to_owned();
        let frame = CloseFrame { code, reason: reason.into() };
        let closing = async {
            if self.socket.close(Some(frame)).await.is_ok() {
                while let Some(Ok(_)) = self.socket.next().await {}
            }
        };
        // Who does not answer is cut off.
        let _ = timeout(CLOSE, closing).await;
    }
}

/// Bytes of a close frame's reason.
const REASON_MAX: usize = 123;

enum Happened<T> {
    Done(T),
    Frame(Message),
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &str = "01990000-0000-7000-8000-000000000001";

    fn read(text: &str) -> Result<Subscription, String> {
        Subscription::read(text, None).map_err(|end| match end {
            End::Close(CloseCode::Policy, reason) => reason,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn the_first_frame_is_read_strictly() {
        let good = format!(
            r#"{{"token":"svc_1","filter":{{"workspace_id":"{WORKSPACE}","kind":"K"}},"after_id":7}}"#
        );
        assert_eq!(read(&good).unwrap().after_id, Some(7));
        let filter = format!(r#""filter":{{"workspace_id":"{WORKSPACE}"}}"#);
        for (bad, reason) in [
            ("{", "first frame"),
            ("[]", "first frame"),
            (r#"{"token":"svc_1"}"#, "filter"),
            (r#"{"token":"svc_1","filter":{}}"#, "workspace_id"),
            (&format!("{{{filter}}}"), "no token"),
            (&format!(r#"{{"token":"svc_1",{filter},"aftr_id":1}}"#), "aftr_id"),
            (r#"{"token":"svc_1","filter":{"workspace_id":"w","thread":"t"}}"#, "`thread`"),
            (&format!(r#"{{"token":"svc_1",{filter},"after_id":1,"resume_token":"x"}}"#), "not both"),
            (&format!(r#"{{"token":"svc_1",{filter},"resume_token":"x"}}"#), "resume_token"),
        ] {
            let told = read(bad).unwrap_err();
            assert!(told.contains(reason), "{bad}: {told}");
        }
        let sent = SecretString::from("svc_2");
        assert!(Subscription::read(&format!("{{{filter}}}"), Some(&sent)).is_ok());
    }

    #[test]
    fn a_resume_token_is_good_in_its_workspace_alone() {
        let text = format!(r#"{{"token":"svc_1","filter":{{"workspace_id":"{WORKSPACE}"}}}}"#);
        let token = read(&text).unwrap().resume_token(41);
        assert_eq!(resumed(&token, WORKSPACE), Some(41));
        assert_eq!(resumed(&token, "01990000-0000-7000-8000-000000000002"), None);
        let forged = URL_SAFE_NO_PAD.encode(format!("v1:{WORKSPACE}:-1"));
        assert_eq!(resumed(&forged, WORKSPACE), None);
    }

    #[test]
    fn frames_say_at_the_top_who_did_it() {
        let event = json!({"id": 1, "payload": {"attribution": {"actor_id": "a"}}});
        let sent: Value = serde_json::from_str(&frame(event)).unwrap();
        assert_eq!(sent.pointer("/attribution/actor_id").unwrap(), "a");
    }

    #[test]
    fn only_a_whole_handshake_is_one() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        assert!(handshake(&headers).is_err());
        headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ=="));
        assert_eq!(handshake(&headers).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("8"));
        assert!(handshake(&headers).is_err());
    }
}
