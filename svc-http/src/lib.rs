//! The HTTP shell: REST, WebSocket and MCP on one listener, over bare hyper (HTTP/1.1 and HTTP/2 in clear text).
//! It frames bytes and asks the core; no rule of the service lives here. Routes come from the operation table, so
//! that an operation needs no line in this crate.
//!
//! What a request meets, in order: the route, the ceiling of requests in flight, its body (size and media type),
//! and then the core's own way in. Left out on purpose: TLS and compression, which belong to a proxy in front.

mod decode;
mod encode;
mod health;
mod hosts;
mod limits;
mod mcp;
mod openapi;
mod route;
mod server;
mod ws;

pub use limits::HttpSettings;
pub use server::serve;
