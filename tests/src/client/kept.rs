//! REST over one connection that stays open, as a busy caller uses it.
//!
//! A broken connection is an outcome, too: the server may have performed the request, or not.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// The moment at which a connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakMoment {
    /// Before a request was sent.
    Idle,
    /// After a request was sent, before its response arrived.
    CutOff,
}

/// One connection of one caller.
pub struct KeptConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    host: String,
    credential: String,
}

impl KeptConnection {
    /// Connects.
    pub async fn open(address: SocketAddr, token: &str) -> Result<Self, BreakMoment> {
        let stream = TcpStream::connect(address).await.map_err(|_| BreakMoment::Idle)?;
        stream.set_nodelay(true).map_err(|_| BreakMoment::Idle)?;
        Self::over(stream, address, token).await
    }

    /// Uses a stream that is already connected.
    pub async fn over(stream: TcpStream, address: SocketAddr, token: &str) -> Result<Self, BreakMoment> {
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|_| BreakMoment::Idle)?;
        // The request in progress reports how the connection ended.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, host: address.to_string(), credential: format!("Bearer {token}") })
    }

    /// Sends a GET request.
    pub async fn get(&mut self, target: &str) -> Result<(u16, Value), BreakMoment> {
        self.ask(Method::GET, target, None).await
    }

    /// Sends a POST request.
    pub async fn post(&mut self, target: &str, body: &Value) -> Result<(u16, Value), BreakMoment> {
        self.ask(Method::POST, target, Some(body)).await
    }

    /// Sends a request; returns the status and the body.
    pub async fn ask(
        &mut self,
        method: Method,
        target: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), BreakMoment> {
        let body = body.map_or_else(String::new, Value::to_string).into();
        let response = self.raw(method, target, &HeaderMap::new(), body).await?;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.map_err(|_| BreakMoment::CutOff)?.to_bytes();
        Ok((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }

    /// Sends a request with additional headers and returns before the body has arrived.
    pub async fn raw(
        &mut self,
        method: Method,
        target: &str,
        more: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, BreakMoment> {
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header("host", &self.host)
            .header("authorization", &self.credential)
            .header("content-type", "application/json")
            .body(Full::from(body))
            .unwrap();
        request.headers_mut().extend(more.clone());
        self.sender.ready().await.map_err(|_| BreakMoment::Idle)?;
        self.sender.send_request(request).await.map_err(|_| BreakMoment::CutOff)
    }
}
