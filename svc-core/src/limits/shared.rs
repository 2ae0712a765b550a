//! Limits on resources that callers share: places to wait, files, subscriptions, deliveries.

/// Maximum credential lookups in progress at the same time.
pub const LOOKUPS_MAX: usize = 64;
/// Maximum queued credential lookups for all addresses together.
pub const LOOKUPS_QUEUED_MAX: usize = 16_384;
/// Maximum queued credential lookups for one address, which is more than the connections that it may have.
pub const LOOKUPS_QUEUED_OF_ADDRESS_MAX: usize = 4096;
/// Maximum callers of one workspace that may wait for places of one ceiling.
pub const WAITING_OF_WORKSPACE_MAX: usize = 4096;
/// Maximum callers of one client that may wait for places of one ceiling.
pub const WAITING_OF_CLIENT_MAX: usize = WAITING_OF_WORKSPACE_MAX / 2;
/// Maximum resource subscriptions of one token.
pub const RESOURCE_SUBSCRIPTIONS_MAX: i64 = 100;
/// Maximum files that are checked at the same time while they are being received.
pub const FILES_JUDGED_MAX: usize = 1;
/// Maximum batches of one delivery channel that a process sends at the same time.
pub const DELIVERY_BATCHES_MAX: usize = 16;
/// Maximum workspaces visited by one search for due deliveries on a channel.
pub const DUE_WORKSPACES_MAX: i64 = 1000;
