//! Shares rate limits between servers: a thread reports the requests that this server has admitted.
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

/// Starts the thread, if several servers can share the database and there are rate limits.
pub(super) fn start(dispatch: &Arc<Dispatch>, opener: &Opener) -> Result<Option<JoinHandle<()>>> {
    let Some(window) = dispatch.limits.shared_window() else { return Ok(None) };
    let mut link =
        LimitConnection { opener: opener.clone(), clock: dispatch.clock.clone(), window, conn: None };
    link.connect()?;
    dispatch.limits.serve(true);
    let dispatch = Arc::clone(dispatch);
    let body = move || serve(&dispatch.limits, &mut link);
    std::thread::Builder::new().name("svc-limits".to_owned()).spawn(body).map(Some).map_err(Error::internal)
}

fn serve(limits: &RateLimits, link: &mut LimitConnection) {
    let mut retry = None;
    while let Some(next) = limits.next_sharing(retry) {
        let outcome = match next {
            SharingTask::Report(told) => {
                let used = link.report(told.usage());
                let outcome = used.as_ref().map(drop).map_err(Clone::clone);
                limits.settle(told, used.ok());
                outcome
            }
            SharingTask::Tidy => link.tidy(),
            SharingTask::Connect => link.connect(),
        };
        retry = link.retry_after(outcome);
        limits.serve(retry.is_none());
    }
}

/// The database connection of the thread that shares rate limits.
struct LimitConnection {
    opener: Opener,
    clock: Clock,
    window: Duration,
    conn: Option<Conn>,
}

impl LimitConnection {
    fn connect(&mut self) -> Result<()> {
        let conn = self.opener.with_short_timeouts()?;
        let asked = self.clock.monotonic();
        self.clock.follow_database(rate_windows::database_time(&conn)?, asked);
        self.conn = Some(conn);
        Ok(())
    }

    /// Logs a failure, and returns the time of the next connection attempt. Returns `None` after a success.
    fn retry_after(&mut self, outcome: Result<()>) -> Option<Monotonic> {
        let error = outcome.err()?;
        tracing::warn!(%error, cause = ?error.cause(), "rate limits are not shared with other servers");
        self.conn = None;
        Some(self.clock.deadline(RATE_LIMIT_SHARING_RETRY))
    }

    fn open(&self) -> Result<(&Conn, Time)> {
        let conn = self.conn.as_ref().ok_or_else(|| Error::internal("there is no connection"))?;
        Ok((conn, self.clock.now()))
    }

    fn report(&self, usage: &[LimitUsage]) -> Result<Vec<Duration>> {
        if usage.is_empty() {
            return Ok(Vec::new());
        }
        let (conn, now) = self.open()?;
        let used: Vec<_> = usage.iter().map(|usage| (usage.key, usage.cost)).collect();
        rate_windows::add(conn, now, self.window, &used)
    }

    /// Removes stored limits that are fully available.
    fn tidy(&self) -> Result<()> {
        let (conn, now) = self.open()?;
        rate_windows::remove_available(conn, now).map(drop)
    }
}
