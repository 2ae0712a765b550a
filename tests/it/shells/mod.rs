//! The shells: HTTP, MCP, WebSocket and the programs, also with clients that are not ours.

mod approvals;
mod arena;
mod board;
mod cli;
pub mod costs;
mod directories;
mod file_sizes;
mod hostile_wire;
mod oidc;
mod mcp_clients;
mod mutants;
mod newcomer;
mod outside;
mod pruning;
mod resources;
mod secrets;
mod sign_in;
mod status;
mod story;
mod subscriptions;
mod texts;
mod scim;
pub mod transports;
mod watching;
mod ui_unit;
mod ui_board;
mod web_push;
