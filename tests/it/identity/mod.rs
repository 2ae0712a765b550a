//! Workspaces, members, tokens and delegation: who may act, and with whose authority.

mod authority;
mod delegation;
mod members;
mod tokens;
mod workspaces;
