//! Identity: workspaces, their members, and the tokens that act for them.
//!
//! This layer decides who holds which capability and how tokens are granted and revoked; `op` checks whether
//! a credential may do what it asks for.
//!
//! - `workspaces`: what a workspace is, and the check that a request stays in its own
//! - `floor`: what a workspace's log still has
//! - `members`: people and agents, and their skills
//! - `authority`: the rules of granting and revoking
//! - `tokens`: minting, narrowing, rotating and revoking
//! - `delegation`: how a member is lent to another, who acts for it
//! - `enrol`: how a member joins a workspace
//! - `apps`: programs that are installed in a workspace, and their tokens
//! - `whoami`: the caller, and the named sets of capabilities
//! - `sessions`: how a browser signs in and out
//! - `ends`: how a member is deactivated, comes back, and is removed for good
//! - `setup`: how a workspace is created: on a new instance, by its operator, or in bootstrap mode
//! - `oidc`: how a person signs in at an identity provider
//! - `operator`: the status of a server, as the instance's operator reads it
//! - `scim`: how an identity provider keeps the people of a workspace

pub(crate) mod authority;
pub(crate) mod workspaces;
pub(crate) mod floor;
pub(crate) mod members;
pub(crate) mod tokens;
pub(crate) mod delegation;
pub(crate) mod enrol;
pub(crate) mod apps;
pub(crate) mod whoami;
pub(crate) mod sessions;
pub(crate) mod ends;
pub(crate) mod setup;
pub(crate) mod oidc;
pub(crate) mod operator;
pub(crate) mod scim;
