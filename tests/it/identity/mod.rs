//! Workspaces, members, tokens, sessions and delegation: who may act, and with whose authority.

mod authority;
mod delegation;
mod members;
mod sessions;
mod tokens;
mod workspaces;
