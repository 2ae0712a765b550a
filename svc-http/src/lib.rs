//! The HTTP shell: REST, WebSocket and MCP on one listener, over bare hyper (HTTP/1.1 and HTTP/2 in clear text).
//! It frames bytes and asks the core; no rule of the service lives here. Routes come from the operation table, so
//! that an operation needs no line in this crate.
//!
//! What a request meets, in order: the ceiling of connections, its Host, its route, what the core says to its head, its
//! body (size, pace and media type), the ceiling of requests in flight, and then the operation. Nothing is held for
//! who is not let in, and nothing grows because somebody does not read. Left out on purpose: TLS and compression,
//! which belong to a proxy in front.

mod answer;
mod body;
mod decode;
mod encode;
mod health;
mod hosts;
mod in_flight;
mod limits;
mod listen;
mod mcp;
mod openapi;
mod pace;
mod problems;
mod route;
mod server;
mod shares;
mod stream;
mod unread;
mod ws;

pub use limits::HttpSettings;
pub use listen::{listen, raise_descriptors};
pub use server::serve;
