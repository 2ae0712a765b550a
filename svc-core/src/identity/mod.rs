//! Who there is: workspaces, the members of each, and the tokens that act for them. What a credential may do is
//! decided in `op`; in here is only who holds what, and how it is handed out and taken back.
//!
//! - `workspaces`: what a workspace is, and the check that a request stays in its own
//! - `members`: people and agents, and their skills
//! - `authority`: who may give, take over and take back how much
//! - `tokens`: minting, narrowing, rotating and revoking
//! - `whoami`: the caller, and the named sets of capabilities
//! - `setup`: how a workspace comes to be: on a new instance, by its operator, or in bootstrap mode

mod authority;
pub(crate) mod members;
pub(crate) mod setup;
pub(crate) mod tokens;
pub(crate) mod whoami;
pub(crate) mod workspaces;
