//! Workspaces, members and tokens: who may act, and with whose authority.

mod authority;
mod members;
mod tokens;
mod workspaces;
