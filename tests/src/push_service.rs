//! A push service in this process, and its subscribed browsers.
//!
//! It keeps the notifications that it gets, and opens them with the key of the browser as a browser does. A
//! test sets its response for each browser.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use svc_core::config::{PushConfig, VapidKey};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use web_push_native::p256::SecretKey;

use crate::process::TEST_TIMEOUT;
use crate::runtime;

/// The keys of every browser: those of RFC 8291, 5.
const PRIVATE: &str = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94";
const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

/// Returns the push configuration of the services in tests.
pub fn config() -> PushConfig {
    let key = VapidKey::new(&[8; 32]).unwrap();
    PushConfig { key: Arc::new(key), subject: Some("mailto:ops@svc.example".to_owned()) }
}

/// Returns the public key with which browsers subscribe at the services in tests.
pub fn public_key() -> String {
    config().key.public().to_owned()
}

/// The response for a browser.
#[derive(Clone, Debug)]
pub enum PushAnswer {
    /// A status, and a header if one is named.
    Status(u16, Option<(&'static str, String)>),
    /// A redirect to another address, where everything is accepted.
    Redirect,
    /// A success with more bytes than a client reads.
    Huge,
    /// No response, on a connection that stays open.
    Never,
}

/// A notification that a push service received.
#[derive(Clone, Debug)]
pub struct PushedNotification {
    /// The browser of the notification.
    pub browser: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body as received.
    pub body: Vec<u8>,
}

impl PushedNotification {
    /// Returns the plaintext that the browser reads.
    pub fn opened(&self) -> Value {
        let key = SecretKey::from_slice(&URL_SAFE_NO_PAD.decode(PRIVATE).unwrap()).unwrap();
        let auth = web_push_native::Auth::clone_from_slice(&URL_SAFE_NO_PAD.decode(AUTH).unwrap());
        let opened = web_push_native::decrypt(self.body.clone(), &key, &auth).unwrap();
        serde_json::from_slice(&opened).unwrap()
    }

    /// Returns one of its headers.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    /// Returns the data that another program needs to open it and to verify its sender.
    pub fn for_outside(&self) -> Value {
        let headers: BTreeMap<&str, &str> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        json!({"headers": headers, "body": STANDARD.encode(&self.body), "private": PRIVATE, "auth": AUTH})
    }
}

#[derive(Default)]
struct State {
    got: Mutex<Vec<PushedNotification>>,
    came: Condvar,
    answers: Mutex<BTreeMap<String, PushAnswer>>,
}

/// A running push service.
pub struct PushService {
    address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl PushService {
    /// Starts one that accepts everything.
    pub fn start() -> Self {
        let listener = runtime().block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        let task = runtime().spawn(serve(listener, Arc::clone(&state)));
        Self { address, state, task }
    }

    /// Returns its origin.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the endpoint of a browser.
    pub fn endpoint(&self, browser: &str) -> String {
        format!("{}/{browser}", self.origin())
    }

    /// Returns the subscription of a browser here.
    pub fn subscription(&self, browser: &str) -> Value {
        subscription(&self.endpoint(browser))
    }

    /// Responds this way from now on for a browser; `None` accepts everything.
    pub fn answers(&self, browser: &str, answers: impl Into<Option<PushAnswer>>) {
        let mut scripts = lock(&self.state.answers);
        match answers.into() {
            Some(answers) => drop(scripts.insert(browser.to_owned(), answers)),
            None => drop(scripts.remove(browser)),
        }
    }

    /// Returns the notifications for a browser, in their order.
    pub fn got(&self, browser: &str) -> Vec<PushedNotification> {
        lock(&self.state.got).iter().filter(|pushed| pushed.browser == browser).cloned().collect()
    }

    /// Waits for this many notifications for a browser, and returns the last of them.
    #[track_caller]
    pub fn wait(&self, browser: &str, count: usize) -> PushedNotification {
        let mut got = lock(&self.state.got);
        loop {
            let of_browser = got.iter().filter(|pushed| pushed.browser == browser);
            if let Some(pushed) = of_browser.clone().nth(count - 1) {
                return pushed.clone();
            }
            let found = of_browser.count();
            let (next, waited) =
                self.state.came.wait_timeout(got, TEST_TIMEOUT).unwrap_or_else(PoisonError::into_inner);
            assert!(!waited.timed_out(), "{browser} has got {found} notifications, not {count}");
            got = next;
        }
    }
}

impl Drop for PushService {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the subscription of a browser, as `PushSubscription.toJSON()` does.
pub fn subscription(endpoint: &str) -> Value {
    json!({"endpoint": endpoint, "expirationTime": null, "keys": {"p256dh": P256DH, "auth": AUTH}})
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let state = Arc::clone(&state);
        let service = service_fn(move |request| answer(Arc::clone(&state), request));
        tokio::spawn(async move {
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
    let (head, body) = request.into_parts();
    let browser = head.uri.path().trim_start_matches('/').to_owned();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let script = lock(&state.answers).get(&browser).cloned();
    lock(&state.got).push(PushedNotification { browser, headers: head.headers, body: body.to_vec() });
    state.came.notify_all();
    let response = Response::builder();
    Ok(match script.unwrap_or(PushAnswer::Status(201, None)) {
        PushAnswer::Status(status, header) => {
            let response =
                header.iter().fold(response, |response, (name, value)| response.header(*name, value));
            response.status(status).body(Full::default()).unwrap()
        }
        PushAnswer::Redirect => {
            response.status(307).header("location", "/moved").body(Full::default()).unwrap()
        }
        PushAnswer::Huge => response.status(201).body(Full::from(vec![b'x'; 64 << 20])).unwrap(),
        PushAnswer::Never => std::future::pending().await,
    })
}
