//! Connections of attackers: raw bytes over HTTP/1.1, requests over HTTP/2, frames over WebSockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};

/// Number of addresses that attackers connect from; each may have a tenth of all connections.
const ADDRESSES: usize = 8;

/// Returns the address that an attacker's connection comes from, by its number.
pub fn source(number: usize) -> IpAddr {
    let last = u8::try_from(number % ADDRESSES).unwrap_or_default();
    Ipv4Addr::new(127, 0, 0, 10 + last).into()
}

/// Connects from a local address.
pub async fn connect(address: SocketAddr, from: IpAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(from, 0))?;
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Returns the head of a request with additional fields, each of which ends with a line break.
pub fn head(method: &str, target: &str, token: Option<&str>, more: &str) -> String {
    let credential = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{credential}{more}\r\n")
}

/// Returns the head of a request whose JSON body has `length` bytes.
pub fn head_of_json(target: &str, token: &str, length: usize) -> String {
    let more = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
    head("POST", target, Some(token), &more)
}

/// Returns the head of a WebSocket handshake.
pub fn handshake(token: Option<&str>) -> String {
    let more = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    head("GET", "/ws/subscribe", token, more)
}

/// Returns a text frame of a WebSocket client.
pub fn text_frame(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("a short frame").to_be_bytes();
    // A mask of zeros leaves the text as it is.
    [&[0x81, 0x80 | 126][..], &length, &[0; 4], text.as_bytes()].concat()
}

/// Reads the status of a response. Returns `None` if the connection ended before.
pub async fn status(stream: &mut TcpStream) -> Option<u16> {
    let mut line = [0; 12];
    stream.read_exact(&mut line).await.ok()?;
    std::str::from_utf8(&line).ok()?.strip_prefix("HTTP/1.1 ")?.parse().ok()
}

/// Reads and drops everything until the server closes the connection.
pub async fn until_closed(stream: &mut TcpStream) {
    let mut buffer = vec![0; 16 << 10];
    while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}
