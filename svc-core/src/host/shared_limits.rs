//! Shares rate limits between servers: a background thread reports the requests that this server has
//! admitted.
//!
//! The thread has a separate connection with a short timeout, so that it does not wait for changes or reads.
//! Without a connection, this server enforces limits on its own.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::limits::RATE_LIMIT_SHARING_RETRY;
use crate::op::Dispatch;
use crate::rate::{LimitUsage, RateLimits, SharingTask};
use crate::store::{Conn, Opener, rate_windows};
use crate::time::{Clock, Monotonic, Time};

/// Starts the background thread, if several servers can share the database and there are rate limits.
pub(super) fn start_sharing_thread(
    dispatch: &Arc<Dispatch>,
    opener: &Opener,
) -> Result<Option<JoinHandle<()>>> {
    let Some(window) = dispatch.limits.shared_window() else { return Ok(None) };
    let mut connection =
        LimitConnection { opener: opener.clone(), clock: dispatch.clock.clone(), window, conn: None };
    connection.connect()?;
    dispatch.limits.set_served(true);
    let dispatch = Arc::clone(dispatch);
    let body = move || run_sharing_tasks(&dispatch.limits, &mut connection);
    std::thread::Builder::new().name("svc-limits".to_owned()).spawn(body).map(Some).map_err(Error::internal)
}

/// Runs the tasks of the background thread until the service closes.
fn run_sharing_tasks(limits: &RateLimits, connection: &mut LimitConnection) {
    let mut retry = None;
    while let Some(next) = limits.wait_for_sharing_task(retry) {
        let outcome = match next {
            SharingTask::Report(report) => {
                let used = connection.report(report.usage());
                let outcome = used.as_ref().map(drop).map_err(Clone::clone);
                limits.complete_report(report, used.ok());
                outcome
            }
            SharingTask::Tidy => connection.remove_fully_available(),
            SharingTask::Connect => connection.connect(),
        };
        retry = connection.retry_time(outcome);
        limits.set_served(retry.is_none());
    }
}

/// The database connection of the background thread that shares rate limits.
struct LimitConnection {
    opener: Opener,
    clock: Clock,
    window: Duration,
    conn: Option<Conn>,
}

impl LimitConnection {
    /// Opens a connection, and sets the clock to the time of the database.
    fn connect(&mut self) -> Result<()> {
        let conn = self.opener.open_with_short_timeouts()?;
        let asked = self.clock.monotonic();
        self.clock.follow_database(rate_windows::database_time(&conn)?, asked);
        self.conn = Some(conn);
        Ok(())
    }

    /// Logs a failure, and returns the time of the next connection attempt. Returns `None` after a success.
    fn retry_time(&mut self, outcome: Result<()>) -> Option<Monotonic> {
        let error = outcome.err()?;
        tracing::warn!(%error, cause = ?error.cause(), "rate limits are not shared with other servers");
        self.conn = None;
        Some(self.clock.deadline(RATE_LIMIT_SHARING_RETRY))
    }

    /// Returns the open connection, and the current time of the clock.
    fn open_connection(&self) -> Result<(&Conn, Time)> {
        let conn = self.conn.as_ref().ok_or_else(|| Error::internal("there is no connection"))?;
        Ok((conn, self.clock.now()))
    }

    /// Adds usage to the stored limits. Returns for each limit the time until it is fully available again.
    fn report(&self, usage: &[LimitUsage]) -> Result<Vec<Duration>> {
        if usage.is_empty() {
            return Ok(Vec::new());
        }
        let (conn, now) = self.open_connection()?;
        let used: Vec<_> = usage.iter().map(|usage| (usage.key, usage.cost)).collect();
        rate_windows::add(conn, now, self.window, &used)
    }

    /// Removes stored limits that are fully available.
    fn remove_fully_available(&self) -> Result<()> {
        let (conn, now) = self.open_connection()?;
        rate_windows::remove_fully_available(conn, now).map(drop)
    }
}
