//! Starts a whole server for tests, and sends requests to it.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use svc_core::{Database, OpenMode, RateSettings, Service, ServiceOptions};
use svc_http::HttpSettings;
use tokio::net::{TcpListener, TcpStream};

/// A server and one of its agents.
pub struct Server {
    _folder: tempfile::TempDir,
    pub address: std::net::SocketAddr,
    pub token: String,
    /// The token of an administrator.
    pub admin: String,
    pub workspace: String,
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Server {
    pub async fn start() -> Self {
        Self::with(HttpSettings { body_max_bytes: 4096, ..HttpSettings::default() }, RateSettings::default())
            .await
    }

    pub async fn with(settings: HttpSettings, rates: RateSettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = ServiceOptions {
            reap_tick: None,
            mode: OpenMode::Create,
            rates,
            ..ServiceOptions::new(Database::Sqlite(folder.path().join("svc.db")), [7; 32])
        };
        let service = Service::with_options(options).unwrap();
        let made = service.establish("home", "ada").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(svc_http::serve(service, listener, settings, std::future::pending()));
        let workspace = json!(made.workspace.id).as_str().unwrap().to_owned();
        let token = made.agent_token.secret;
        let admin = made.token.secret;
        Self { _folder: folder, address, token, admin, workspace }
    }

    /// Sends `body` with the agent's token and a JSON content type.
    ///
    /// `headers` override these two headers; an empty value removes a header.
    pub async fn send(&self, method: Method, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        let (parts, bytes) = self.bytes("/mcp", method, headers, body).await;
        let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// Sends a message to an MCP path.
    pub async fn at(&self, path: &str, headers: &[(&str, &str)], body: Value) -> Answer {
        let (parts, bytes) = self.bytes(path, Method::POST, headers, body.to_string()).await;
        Answer { status: parts.status, headers: parts.headers, body: serde_json::from_slice(&bytes).unwrap() }
    }

    pub async fn bytes(
        &self,
        path: &str,
        method: Method,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> (hyper::http::response::Parts, Bytes) {
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap();
        let authorization = format!("Bearer {}", self.token);
        let host = self.address.to_string();
        let usual = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
            ("host", &host),
        ];
        for (name, value) in usual.iter().chain(headers) {
            let name: HeaderName = name.parse().unwrap();
            if value.is_empty() {
                request.headers_mut().remove(name);
            } else {
                request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
            }
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
        (parts, body.collect().await.unwrap().to_bytes())
    }

    pub async fn post(&self, headers: &[(&str, &str)], body: Value) -> Answer {
        self.send(Method::POST, headers, body.to_string()).await
    }

    pub async fn legacy(&self, method: &str, params: Value) -> Answer {
        self.post(&[], json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await
    }

    pub async fn modern(&self, method: &str, mut params: Value) -> Answer {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", &name)];
        self.post(&headers, json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await
    }
}
