//! The HTTP shell: REST, WebSocket and MCP on one listener.
//!
//! The crate is built directly on hyper and serves HTTP/1.1 and HTTP/2 in plaintext. The crate handles
//! framing and calls the core, which contains all rules of the service. The operation table defines the
//! routes, so a new operation needs no code in this crate.
//!
//! A request passes these steps in order: the connection limit, the Host check, routing, admission by the
//! core (from the head alone), the body checks (size, rate and media type), the limit on requests in flight,
//! and the operation. The server holds no resources for a client that has not been admitted, and no buffer
//! grows because a client does not read. TLS and compression are left to a proxy in front of the server.
//!
//! Requests to other servers, such as the identity provider, go through one client that reaches only public
//! addresses. This crate also sends mail and web push notifications.

#[cfg(test)]
#[path = "../../svc-core/src/strangers.rs"]
mod strangers;
mod limits;
mod settings;
mod self_waking;
mod encode;
mod accept;
mod html;
mod ui;
mod decode;
mod forwarded;
mod hosts;
mod origin;
mod listen;
mod problems;
mod route;
mod openapi;
mod phase;
mod connection;
mod outbound;
mod oidc;
mod state;
mod health;
mod rest;
mod frames;
mod delivery;
mod mcp;
mod ws;
mod workers;
mod smtp;
mod smtp_stream;
mod mail;
mod push;
mod server;
#[cfg(test)]
mod ceilings;

pub use listen::{listen, raise_descriptor_limit};
pub use server::{serve, serve_with_router};
pub use settings::HttpSettings;
