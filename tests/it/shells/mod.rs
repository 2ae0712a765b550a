//! What stands in front of the core: HTTP, MCP, WebSocket and the programs, up to a client of another maker.

mod arena;
mod cli;
mod file_sizes;
mod hostile_wire;
mod outside;
mod story;
mod subscriptions;
pub mod transports;
