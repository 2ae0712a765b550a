//! Limits on resources that callers share: credential lookups, waiting callers, files, subscriptions and
//! deliveries.

/// Maximum credential lookups that one process runs at the same time.
pub const LOOKUPS_MAX: usize = 64;
/// Maximum queued credential lookups for all addresses together.
pub const LOOKUPS_QUEUED_MAX: usize = 16_384;
/// Maximum queued credential lookups for one client address. It exceeds the connections that one address may
/// open.
pub const LOOKUPS_QUEUED_PER_ADDRESS_MAX: usize = 4096;
/// Maximum callers of one workspace that may wait until a concurrency limit admits them.
pub const WAITING_PER_WORKSPACE_MAX: usize = 4096;
/// Maximum calls of one client that may wait until a concurrency limit admits them.
pub const WAITING_PER_CLIENT_MAX: usize = WAITING_PER_WORKSPACE_MAX / 2;
/// Maximum resource subscriptions of one token.
pub const RESOURCE_SUBSCRIPTIONS_MAX: i64 = 100;
/// Maximum files that one process verifies at the same time while it receives them.
pub const FILES_VERIFIED_MAX: usize = 1;
/// Maximum batches of one delivery channel, such as email, that a process sends at the same time.
pub const DELIVERY_BATCHES_MAX: usize = 16;
/// Maximum workspaces that one search for due deliveries of a delivery channel visits.
pub const DUE_WORKSPACES_MAX: i64 = 1000;
