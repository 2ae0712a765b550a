//! Tests the HTTP shell: framing over HTTP and WebSocket, limits and the shutdown.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod framing;
mod sockets;

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use svc_core::setup::Established;
use svc_core::{Database, OpenMode, Service, ServiceOptions};
use svc_http::HttpSettings;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server with a workspace.
struct Server {
    address: SocketAddr,
    made: Established,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<std::io::Result<()>>,
    _folder: tempfile::TempDir,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Server {
    async fn start(settings: HttpSettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::Sqlite(folder.path().join("svc.db"));
        let service = Service::with_options(ServiceOptions {
            mode: OpenMode::Create,
            reap_tick: None,
            // A large page takes long in a debug build while other tests run.
            read_budget: None,
            ..ServiceOptions::new(database, [7; 32])
        })
        .unwrap();
        let made = service.establish("home", "ada").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving =
            tokio::spawn(svc_http::serve(service, listener, settings, async move { drop(stopped.await) }));
        Self { address, made, stop: Some(stop), serving, _folder: folder }
    }

    /// Requests a shutdown, as a signal does.
    fn stop(&mut self) {
        drop(self.stop.take());
    }

    fn workspace(&self) -> String {
        self.made.workspace.id.to_string()
    }

    /// Creates a request with the administrator's token.
    fn request(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = method.parse::<Method>().unwrap();
        *request.uri_mut() = path.replace("{workspace_id}", &self.workspace()).parse().unwrap();
        let bearer = format!("Bearer {}", self.made.token.secret);
        request.headers_mut().insert(AUTHORIZATION, bearer.parse().unwrap());
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
        request
    }

    async fn ask(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        self.send(self.request(method, path, body)).await
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Answer::of(sender.send_request(request).await.unwrap()).await
    }

    /// Creates a channel and returns the position of its event.
    async fn add_channel(&self, name: &str) -> i64 {
        let body = serde_json::json!({"name": name, "private": false}).to_string();
        let answer = self.ask("POST", "/workspaces/{workspace_id}/channels", body).await;
        assert_eq!(answer.status, 201, "{:?}", answer.body);
        answer.json()["lsn"].as_i64().unwrap()
    }
}

impl Answer {
    async fn of(response: Response<hyper::body::Incoming>) -> Self {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Self { status: parts.status, headers: parts.headers, body }
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// Checks that the response is a problem with this code, and returns its status.
    fn problem(&self, code: &str) -> u16 {
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.header("cache-control"), "no-store");
        let body = self.json();
        assert_eq!(body["type"], format!("/problems/{code}"), "{body}");
        assert_eq!(body["status"], self.status.as_u16());
        self.status.as_u16()
    }
}
