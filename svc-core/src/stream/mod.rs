//! Reading the event log: listing and verifying events, and subscriptions.
//!
//! - `events`: reads the log, waits for new events, and verifies the chain
//! - `catch_up`: reads the whole log as a chain, and `tombstones`: lists the withdrawn messages
//! - `checkpoints`: stores the Merkle trees over the logs, `snapshot`: returns the state at the head of a log
//! - `census`: counts the events of each kind
//! - `workspace_address`: returns the address of a workspace and the head of its log
//! - `subscriptions`: follows the log as it grows
//! - `resource_subscriptions`: stores the MCP resources that a token is subscribed to
//! - `internal_consumers`: stores the position up to which each consumer inside the service has read each log

pub(crate) mod catch_up;
pub(crate) mod tombstones;
pub(crate) mod events;
pub(crate) mod workspace_address;
pub(crate) mod checkpoints;
pub(crate) mod snapshot;
pub(crate) mod subscriptions;
pub(crate) mod resource_subscriptions;
pub(crate) mod internal_consumers;
pub(crate) mod census;
