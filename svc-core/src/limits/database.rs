//! Limits of connections to the database.

use std::time::Duration;

/// Maximum time the bus may spend on one piece of work before readiness reports it as hung.
pub const BUS_WORK_MAX: Duration = Duration::from_secs(10);
/// Default timeout for connecting to a Postgres server, unless the address sets one.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which data may stay unacknowledged before the kernel drops a connection to Postgres.
pub const TCP_USER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for which a connection to Postgres is idle before the kernel sends a keepalive probe.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Time between two keepalive probes.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Number of keepalive probes that may go unanswered.
pub const KEEPALIVE_RETRIES: u32 = 3;
/// Additional time to wait for a reply of Postgres after its statement timeout.
pub const ANSWER_SLACK: Duration = Duration::from_secs(2);
/// Postgres `statement_timeout`.
pub const STATEMENT_TIMEOUT: Duration = Duration::from_millis(30_000);
/// Postgres `idle_in_transaction_session_timeout`.
pub const IDLE_IN_TRANSACTION_TIMEOUT: Duration = Duration::from_millis(60_000);
/// Postgres `lock_timeout`.
pub const LOCK_TIMEOUT: Duration = Duration::from_millis(10_000);
/// Maximum Postgres connections of one process.
///
/// These are the connections below, one for health, one for long reads, one that reads other servers'
/// commits, one that listens for them, one for housekeeping, and one for rate limits.
pub const POSTGRES_CONNECTIONS: usize = 17;
/// Maximum Postgres connections of one process in its pool.
///
/// All but those of the writers, the listener and the rate limits: one for each thread that takes one, so
/// that none has to wait.
pub const POSTGRES_POOLED: usize = POSTGRES_CONNECTIONS - WRITER_LANES - 2;
/// Threads per process that read a whole workspace at once. One workspace occupies one of them.
pub const SCANNERS: usize = 2;
/// Postgres connections that write, per process.
pub const WRITER_LANES: usize = 2;
/// Threads that read from SQLite, per process. One workspace occupies two of them.
pub const READERS: usize = 3;
/// Postgres connections that read, per process: more, because each of their statements waits for the network.
pub const POSTGRES_READERS: usize = 6;
/// Postgres connections for reads on callers' own threads, per process.
///
/// Only programs that wait for each reply use them.
pub const POSTGRES_INLINE_READERS: usize = 1;
/// Maximum SQLite connections per process for reads on callers' own threads: one more than there are cores.
pub const INLINE_READERS: usize = 9;
