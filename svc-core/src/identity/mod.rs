//! Identity: workspaces, their members, and the tokens that act for them.
//!
//! This layer decides which capabilities a member has, and how tokens are granted and revoked. The layer `op`
//! checks whether a credential permits a request.
//!
//! - `workspaces`: workspaces, and the check that a request stays within the caller's workspace
//! - `floor`: the range of events that a workspace's log still contains
//! - `members`: people and agents, and their skills
//! - `authority`: rules for granting and revoking capabilities
//! - `tokens`: minting, narrowing, rotating and revoking tokens
//! - `delegation`: letting one member act for another
//! - `enrol`: adding a member to a workspace
//! - `apps`: programs that are installed in a workspace, and their tokens
//! - `whoami`: the caller, and the named sets of capabilities
//! - `sessions`: signing a browser in and out
//! - `member_ends`: deactivating, reactivating and removing a member
//! - `setup`: creating a workspace: the first one of a new instance, one by the operator, or one in bootstrap
//!   mode
//! - `oidc`: signing in at an identity provider
//! - `operator`: the status of a server, for the operator of the instance
//! - `scim`: managing a workspace's people from an identity provider

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
pub(crate) mod member_ends;
pub(crate) mod setup;
pub(crate) mod oidc;
pub(crate) mod operator;
pub(crate) mod scim;
