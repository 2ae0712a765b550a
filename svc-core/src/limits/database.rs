//! Limits on database connections, their timeouts, and the background threads that use them.

use std::time::Duration;

/// Maximum time that the bus may spend on one task before readiness reports it as hung.
pub const BUS_TASK_MAX: Duration = Duration::from_secs(10);
/// Default timeout for connecting to a Postgres server. The database URL can override this default.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which sent data may stay unacknowledged before the kernel drops a connection to Postgres.
pub const TCP_USER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for which a connection to Postgres is idle before the kernel sends a keepalive probe.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Time between two keepalive probes on a connection to Postgres.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Number of unanswered keepalive probes after which a connection to Postgres counts as lost.
pub const KEEPALIVE_RETRIES: u32 = 3;
/// Time to wait for a reply from Postgres after the statement's own timeout has passed.
pub const POSTGRES_REPLY_GRACE: Duration = Duration::from_secs(2);
/// Maximum time that Postgres runs one statement (`statement_timeout`).
pub const STATEMENT_TIMEOUT: Duration = Duration::from_millis(30_000);
/// Maximum time between two statements of a Postgres transaction (`idle_in_transaction_session_timeout`).
pub const IDLE_IN_TRANSACTION_TIMEOUT: Duration = Duration::from_millis(60_000);
/// Maximum time that a Postgres statement waits for a lock (`lock_timeout`).
pub const LOCK_TIMEOUT: Duration = Duration::from_millis(10_000);
/// Maximum Postgres connections of one process.
///
/// These are the readers, writers and scanners below, and one connection each for health, for long reads, for
/// reading other servers' commits, for listening for those commits, for housekeeping, and for rate limits.
pub const POSTGRES_CONNECTIONS: usize = 17;
/// Maximum Postgres connections in the pool of one process.
///
/// The pool contains all connections except those of the writers, the listener and the rate limits: one for
/// each background thread that takes a connection, so that no background thread has to wait.
pub const POSTGRES_POOL_CONNECTIONS: usize = POSTGRES_CONNECTIONS - WRITER_LANES - 2;
/// Number of background threads per process for reads of a whole workspace. Each workspace can occupy one of
/// these background threads.
pub const SCANNER_THREADS: usize = 2;
/// Number of Postgres connections per process for writes.
pub const WRITER_LANES: usize = 2;
/// Number of background threads per process for reads from SQLite. Each workspace can occupy two of these
/// background threads.
pub const READERS: usize = 3;
/// Number of Postgres connections per process for reads. The number exceeds [`READERS`], because each
/// statement waits for the network.
pub const POSTGRES_READERS: usize = 6;
/// Number of Postgres connections per process for reads that run on the operating-system thread of the
/// caller.
///
/// Only programs that wait for each reply use these connections.
pub const POSTGRES_INLINE_READERS: usize = 1;
/// Maximum SQLite connections per process for reads that run on the operating-system thread of the caller. A
/// process opens one connection more than the machine has cores, up to this maximum.
pub const INLINE_READERS_MAX: usize = 9;
