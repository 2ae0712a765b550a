//! Workspaces, members, tokens, sessions, apps and delegation: who may act, and with whose authority.

mod apps;
mod authority;
mod delegation;
mod members;
mod quotas;
mod scim;
mod sessions;
mod tokens;
mod workspaces;
