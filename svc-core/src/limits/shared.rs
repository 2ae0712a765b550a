//! Limits of resources that callers share: places to wait, files, subscriptions, deliveries.

/// Maximum credential lookups in progress.
pub const LOOKUPS_MAX: usize = 64;
/// Maximum queued credential lookups of all addresses.
pub const LOOKUPS_QUEUED_MAX: usize = 16_384;
/// Maximum queued credential lookups of one address: more than the connections that it may have.
pub const LOOKUPS_QUEUED_OF_ADDRESS_MAX: usize = 4096;
/// Maximum callers of one workspace that wait for places of one ceiling.
pub const WAITING_OF_WORKSPACE_MAX: usize = 4096;
/// Maximum callers of one client that wait for places of one ceiling.
pub const WAITING_OF_CLIENT_MAX: usize = WAITING_OF_WORKSPACE_MAX / 2;
/// Maximum subscriptions of one token to resources.
pub const RESOURCE_SUBSCRIPTIONS_MAX: i64 = 100;
/// Maximum files that are checked at the same time while they are received.
pub const FILES_JUDGED_MAX: usize = 1;
/// Maximum delivery batches of one delivery channel that a process sends at the same time.
pub const DELIVERY_BATCHES_MAX: usize = 16;
/// Maximum workspaces that one search for due deliveries of a channel steps through.
pub const DUE_WORKSPACES_MAX: i64 = 1000;
