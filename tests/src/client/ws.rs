//! WebSocket subscriptions.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::process::TEST_TIMEOUT;
use crate::runtime;

/// One subscription.
pub struct Ws {
    socket: WebSocketStream<TcpStream>,
}

/// The next frame, or the end of a subscription.
#[derive(Debug, PartialEq)]
pub enum Received {
    /// A frame.
    Frame(Value),
    /// The connection was closed with this code.
    Closed(u16),
}

impl Ws {
    /// Connects and sends the first frame.
    pub fn subscribe(address: SocketAddr, first: &Value) -> Self {
        Self::subscribe_with(address, &[], first)
    }

    /// Connects with these headers in the handshake and sends the first frame.
    pub fn subscribe_with(address: SocketAddr, headers: &[(&str, &str)], first: &Value) -> Self {
        let mut connected = Self::connect(address, headers);
        connected.say(first);
        connected
    }

    /// Connects and sends the first frame, and returns the headers of the handshake's response, too.
    pub fn shake_hands(address: SocketAddr, headers: &[(&str, &str)], first: &Value) -> (Self, HeaderMap) {
        let (mut connected, answered) = Self::handshake(address, headers);
        connected.say(first);
        (connected, answered)
    }

    /// Connects with these headers in the handshake.
    pub fn connect(address: SocketAddr, headers: &[(&str, &str)]) -> Self {
        Self::handshake(address, headers).0
    }

    fn handshake(address: SocketAddr, headers: &[(&str, &str)]) -> (Self, HeaderMap) {
        runtime().block_on(async {
            let stream = TcpStream::connect(address).await.unwrap();
            let (socket, answered) = client_async(request(address, headers), stream).await.unwrap();
            (Self { socket }, answered.headers().clone())
        })
    }

    /// Sends a frame.
    pub fn say(&mut self, frame: &Value) {
        runtime().block_on(self.socket.send(Message::text(frame.to_string()))).unwrap();
    }

    /// Sends a frame with this text.
    pub fn say_text(&mut self, text: &str) {
        runtime().block_on(self.socket.send(Message::text(text.to_owned()))).unwrap();
    }

    /// Connects with these headers in the handshake. Returns the status if the server refuses it.
    pub fn try_connect(address: SocketAddr, headers: &[(&str, &str)]) -> Result<Self, u16> {
        runtime().block_on(async {
            let stream = TcpStream::connect(address).await.unwrap();
            match client_async(request(address, headers), stream).await {
                Ok((socket, _)) => Ok(Self { socket }),
                Err(Error::Http(refused)) => Err(refused.status().as_u16()),
                Err(other) => panic!("{other}"),
            }
        })
    }

    /// Returns the next frame, or the end.
    pub fn receive(&mut self) -> Received {
        runtime().block_on(async {
            loop {
                let received =
                    tokio::time::timeout(TEST_TIMEOUT, self.socket.next()).await.expect("a frame in time");
                match received.expect("a frame or a close").unwrap() {
                    Message::Text(text) => return Received::Frame(serde_json::from_str(&text).unwrap()),
                    Message::Close(close) => return Received::Closed(close.unwrap().code.into()),
                    _ => {}
                }
            }
        })
    }

    /// Returns the next frame.
    #[track_caller]
    pub fn frame(&mut self) -> Value {
        match self.receive() {
            Received::Frame(frame) => frame,
            Received::Closed(code) => panic!("closed with {code}"),
        }
    }
}

/// Returns a handshake with these headers.
fn request(address: SocketAddr, headers: &[(&str, &str)]) -> http::Request<()> {
    let mut request = format!("ws://{address}/ws/subscribe").into_client_request().unwrap();
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request
}

/// Returns the first frame for everything in a workspace after `after_id`.
pub fn first_frame(token: &str, workspace_id: impl std::fmt::Display, after_id: Option<i64>) -> Value {
    json!({"token": token, "filter": {"workspace_id": workspace_id.to_string()}, "after_id": after_id})
}
